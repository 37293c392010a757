/*
 * What differs between the Open MPI versions gpucoll builds for: the only file that asks for a version.
 * 6.0 will be one more branch here: counts become size_t and count arrays a struct by value, so code outside this
 * file spells them gpucoll_count, gpucoll_counts and gpucoll_displs and reads elements by the two functions below.
 */
#ifndef COLL_GPUCOLL_COMPAT_H
#define COLL_GPUCOLL_COMPAT_H

#include "ompi_config.h"

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/info/info.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/base/coll_base_util.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/topo/base/base.h"
#include "ompi/op/op.h"
#include "ompi/request/request.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_framework.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal_progress.h"

#if OMPI_MAJOR_VERSION == 5
#define GPUCOLL_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_2_4_0
#elif OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION >= 1
#define GPUCOLL_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_2_0_0
#else
#error "gpucoll supports Open MPI 4.1.x and 5.0.x"
#endif

typedef int gpucoll_count;
typedef const int *gpucoll_counts;
typedef const int *gpucoll_displs;

static inline size_t gpucoll_count_at(gpucoll_counts counts, int index)
{
    return (size_t)counts[index];
}

static inline ptrdiff_t gpucoll_displ_at(gpucoll_displs displs, int index)
{
    return displs[index];
}

/* 16-bit floats: a C type from 5.0 on, Fortran's REAL*2 before. OMPI_OP_BASE_TYPE_MAX: none. */
#if OMPI_MAJOR_VERSION >= 5
#define GPUCOLL_OMPI_SHORT_FLOAT OMPI_OP_BASE_TYPE_SHORT_FLOAT
#else
#define GPUCOLL_OMPI_SHORT_FLOAT OMPI_OP_BASE_TYPE_MAX
#endif

#endif
