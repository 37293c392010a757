/*
 * The operators of the application, as the next component gets them. Reductions by these are never native. Open MPI's algorithms for
 * operators that commute forget the lower bound of a datatype in their own buffers: where it is not 0, they write beside them. And they
 * have an order of their own, where coll_gpucoll_deterministic asks for that of the ranks. In these two cases the next component gets the
 * operator as one that does not commute: a copy without that flag. In all others results have the bits that Open MPI gives them by
 * itself, and calls on host memory lose no time.
 *
 * All ranks have to take the same algorithm, and none knows whether a buffer of another is on the device: so this is done for each such call,
 * also on host memory, and in a process without a device.
 */
#ifndef COLL_GPUCOLL_OPERATOR_H
#define COLL_GPUCOLL_OPERATOR_H

#include "coll_gpucoll_compat.h"

bool gpucoll_operator_is_replaced(const ompi_op_t *op, const ompi_datatype_t *dtype);

/* Is it to be replaced? The same on all ranks. NULL, of collectives that do not reduce, is not. */
static inline bool gpucoll_operator_replaced(ompi_op_t *op, const ompi_datatype_t *dtype)
{
    return op != NULL && !ompi_op_is_intrinsic(op) && gpucoll_operator_is_replaced(op, dtype);
}

/* The operator that the next component is to get, which stays until it is dropped, also where the application frees its own before
 * that. NULL: out of memory, which has been said. `slot` is the collective's name, for messages. */
ompi_op_t *gpucoll_operator_replace(const char *slot, ompi_op_t *op, const ompi_datatype_t *dtype);
static inline ompi_op_t *gpucoll_operator_take(const char *slot, ompi_op_t *op, const ompi_datatype_t *dtype)
{
    return ompi_op_is_intrinsic(op) ? op : gpucoll_operator_replace(slot, op, dtype);
}
static inline void gpucoll_operator_drop(ompi_op_t *op)
{
    if (!ompi_op_is_intrinsic(op)) {
        OBJ_RELEASE(op);
    }
}

#endif
