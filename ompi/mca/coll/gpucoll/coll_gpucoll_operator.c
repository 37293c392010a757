#include "coll_gpucoll_operator.h"
#include "coll_gpucoll.h"

bool gpucoll_operator_is_replaced(const ompi_op_t *op, const ompi_datatype_t *dtype)
{
    const bool shifted = dtype->super.lb != 0 || dtype->super.true_lb != 0;
    return ompi_op_is_commute((ompi_op_t *)op) &&
           (shifted || mca_coll_gpucoll_component.config.deterministic);
}

ompi_op_t *gpucoll_operator_replace(const char *slot, ompi_op_t *op, const ompi_datatype_t *dtype)
{
    if (!gpucoll_operator_is_replaced(op, dtype)) {
        OBJ_RETAIN(op);
        return op;
    }
    ompi_op_t *copy = ompi_op_create_user(false, op->o_func.fort_fn);
    if (copy == NULL) {
        gpucoll_help(&mca_coll_gpucoll_component.log, "operator-memory", slot);
        return NULL;
    }
    /* Whatever language the function is of. */
    copy->o_flags = op->o_flags & ~(uint32_t)OMPI_OP_FLAGS_COMMUTE;
    copy->o_func = op->o_func;
    return copy;
}
