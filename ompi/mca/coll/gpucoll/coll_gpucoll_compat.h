/*
 * What differs between the Open MPI versions gpucoll builds for: the only file that asks for a version.
 * 6.0 will be one more branch here: counts become size_t and count arrays a struct by value, so code outside
 * this file spells them gpucoll_count, gpucoll_counts and gpucoll_displs, and reads and makes them by the
 * functions below.
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
#include "opal/util/proc.h"

#if OMPI_MAJOR_VERSION == 5
#define GPUCOLL_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_2_4_0
#elif OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION >= 1
#define GPUCOLL_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_2_0_0
#else
#error "gpucoll supports Open MPI 4.1.x and 5.0.x"
#endif

typedef int gpucoll_count;
typedef int gpucoll_displ;
typedef const gpucoll_count *gpucoll_counts;
typedef const gpucoll_displ *gpucoll_displs;
typedef const ptrdiff_t *gpucoll_displs_aint; /* neighbor_alltoallw */

static inline size_t gpucoll_count_at(gpucoll_counts counts, int index)
{
    return (size_t)counts[index];
}

static inline ptrdiff_t gpucoll_displ_at(gpucoll_displs displs, int index)
{
    return displs[index];
}

/* The reverse: arrays of our own as a slot takes them. */
static inline gpucoll_counts gpucoll_counts_of(const gpucoll_count *array)
{
    return array;
}

static inline gpucoll_displs gpucoll_displs_of(const gpucoll_displ *array)
{
    return array;
}

/* Open MPI 4.1 tells a function that copies an attribute of a communicator of the new one as well. */
#if OMPI_MAJOR_VERSION >= 5
#define GPUCOLL_COPY_ATTR_MORE
#else
#define GPUCOLL_COPY_ATTR_MORE , __attribute__((unused)) MPI_Comm newcomm
#endif

/* This process's place in its job, where no MPI_COMM_WORLD says it: with sessions, which 4.1 has not. */
static inline void gpucoll_job_place(uint32_t *rank, uint32_t *ranks)
{
#if OMPI_MAJOR_VERSION >= 5
    *rank = opal_process_info.my_name.vpid;
    *ranks = opal_process_info.num_procs;
#else
    (void)rank;
    (void)ranks;
#endif
}

/* 16-bit floats: a C type from 5.0 on, only Fortran's REAL*2 before. A row of a table indexed by the types of
 * ompi/mca/op. */
#if OMPI_MAJOR_VERSION >= 5
#define GPUCOLL_SHORT_FLOAT_ROW(...) [OMPI_OP_BASE_TYPE_SHORT_FLOAT] = __VA_ARGS__,
#else
#define GPUCOLL_SHORT_FLOAT_ROW(...)
#endif

/*
 * Taking a slot, in `enable`. 4.1 and 5.0 copy the module's function into the communicator afterwards, and
 * release what stood there: keep that, with a reference to its module. 6.0 leaves both steps, and the reverse
 * in `disable`, to the component: MCA_COLL_SAVE_API and MCA_COLL_INSTALL_API there. A slot that nobody serves
 * (scan on an intercommunicator) stays so.
 */
#define GPUCOLL_TAKE_SLOT(self, comm, slot)                                                                  \
    if ((comm)->c_coll->coll_##slot != NULL) {                                                               \
        (self)->next.coll_##slot = (comm)->c_coll->coll_##slot;                                              \
        (self)->next.coll_##slot##_module = (comm)->c_coll->coll_##slot##_module;                            \
        OBJ_RETAIN((self)->next.coll_##slot##_module);                                                       \
    } else {                                                                                                 \
        (self)->super.coll_##slot = NULL;                                                                    \
    }
#define GPUCOLL_DROP_SLOT(self, slot)                                                                        \
    if ((self)->next.coll_##slot##_module != NULL) {                                                         \
        OBJ_RELEASE((self)->next.coll_##slot##_module);                                                      \
    }

/* Why collectives on this communicator cannot be completed any more (ULFM); MPI_SUCCESS if they can. */
static inline int gpucoll_comm_error(ompi_communicator_t *comm)
{
#if OMPI_MAJOR_VERSION >= 5 && OPAL_ENABLE_FT_MPI
    int error = MPI_SUCCESS;
    return ompi_comm_iface_coll_check(comm, &error) ? MPI_SUCCESS : error;
#else
    (void)comm;
    return MPI_SUCCESS;
#endif
}

/* The code for a call that a rank's end has ended, whether or not Open MPI knows of it yet. */
static inline int gpucoll_peer_error(void)
{
#if OMPI_MAJOR_VERSION >= 5 && OPAL_ENABLE_FT_MPI
    return ompi_ftmpi_enabled ? MPI_ERR_PROC_FAILED : MPI_ERR_OTHER;
#else
    return MPI_ERR_OTHER;
#endif
}

#endif
