/*
 * Open MPI's predefined operators and datatypes in gpucoll's terms.
 */
#ifndef COLL_GPUCOLL_REDUCTION_H
#define COLL_GPUCOLL_REDUCTION_H

#include "coll_gpucoll_compat.h"
#include "core/base/types.h"

/* False if MPI does not allow the pair, or gpucoll has no kernel for it. A function of its arguments alone:
 * the same on every rank. */
bool gpucoll_reduction(const ompi_op_t *op, const ompi_datatype_t *dtype, enum gpucoll_op *out_op,
                       enum gpucoll_type *out_type);

#endif
