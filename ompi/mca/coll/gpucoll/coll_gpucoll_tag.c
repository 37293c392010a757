#include "coll_gpucoll_tag.h"

/* A slot that nobody serves takes no tag. */
static bool is_libnbc(const mca_coll_base_module_t *module)
{
    return module == NULL || strcmp(module->super.obj_class->cls_name, "ompi_coll_libnbc_module_t") == 0;
}

bool gpucoll_tags_known(const gpucoll_module *self)
{
    bool known = true;
#define CHECK_SLOTS(name)                                                                                    \
    known = known && is_libnbc(self->next.coll_i##name##_module) &&                                          \
            is_libnbc(self->next.coll_##name##_init_module);
    GPUCOLL_COLLECTIVES(CHECK_SLOTS)
    CHECK_SLOTS(barrier)
#undef CHECK_SLOTS
    return known;
}
