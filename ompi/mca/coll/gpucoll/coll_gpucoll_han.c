#include "coll_gpucoll_han.h"

/* What it serves. */
#define HAN_SLOTS(X)                                                                                         \
    X(allgather) X(allgatherv) X(allreduce) X(barrier) X(bcast) X(gather) X(reduce) X(scatter)

static bool is_han(const mca_coll_base_module_t *module)
{
    return OMPI_MAJOR_VERSION < 5 && module != NULL &&
           strcmp(module->super.obj_class->cls_name, "mca_coll_han_module_t") == 0;
}

bool gpucoll_han_is_next(const gpucoll_module *self)
{
    bool any = false;
#define CHECK_SLOT(name) any = any || is_han(self->next.coll_##name##_module);
    HAN_SLOTS(CHECK_SLOT)
#undef CHECK_SLOT
    return any;
}

/* The communicator's references stay as they are: it has one to this module for each slot. */
void gpucoll_han_give_slots(gpucoll_module *self)
{
    mca_coll_base_comm_coll_t *slots = self->comm->c_coll;
#define GIVE_SLOT(name)                                                                                      \
    slots->coll_##name = self->next.coll_##name;                                                             \
    slots->coll_##name##_module = self->next.coll_##name##_module;
    HAN_SLOTS(GIVE_SLOT)
#undef GIVE_SLOT
}

/* It has retained what it put there, and released itself, which was this module's reference: that is to the new one now. */
void gpucoll_han_take_slots(gpucoll_module *self)
{
    mca_coll_base_comm_coll_t *slots = self->comm->c_coll;
#define TAKE_SLOT(name)                                                                                      \
    self->next.coll_##name = slots->coll_##name;                                                             \
    self->next.coll_##name##_module = slots->coll_##name##_module;                                           \
    slots->coll_##name = self->super.coll_##name;                                                            \
    slots->coll_##name##_module = &self->super;
    HAN_SLOTS(TAKE_SLOT)
#undef TAKE_SLOT
    self->above_han = gpucoll_han_is_next(self);
}
