/*
 * The operators of the application, as the next component gets them. Reductions by these are never native, and those of device
 * memory are to be done in rank order, whether or not the application says that its operator commutes. Also, Open MPI's algorithms for
 * operators that commute forget the lower bound of a datatype in their own buffers: where it is not 0, they write
 * beside them. So the next component gets such an operator as one that does not commute: a copy without that flag.
 *
 * All ranks have to take the same algorithm, and none knows whether a buffer of another is on the device: so this is done for each call by
 * such an operator, also on host memory, and in a process without a device.
 */
#ifndef COLL_GPUCOLL_OPERATOR_H
#define COLL_GPUCOLL_OPERATOR_H

#include "coll_gpucoll_compat.h"

/* Is it to be replaced? The same on all ranks. NULL, of collectives that do not reduce, is not. */
static inline bool gpucoll_operator_replaced(ompi_op_t *op)
{
    return op != NULL && !ompi_op_is_intrinsic(op) && ompi_op_is_commute(op);
}

/* The operator that the next component is to get, which stays until it is dropped, also where the application frees its own before
 * that. NULL: out of memory, which has been said. `slot` is the collective's name, for messages. */
ompi_op_t *gpucoll_operator_replace(const char *slot, ompi_op_t *op);
static inline ompi_op_t *gpucoll_operator_take(const char *slot, ompi_op_t *op)
{
    return ompi_op_is_intrinsic(op) ? op : gpucoll_operator_replace(slot, op);
}
static inline void gpucoll_operator_drop(ompi_op_t *op)
{
    if (!ompi_op_is_intrinsic(op)) {
        OBJ_RELEASE(op);
    }
}

#endif
