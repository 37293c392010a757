#include "test/unit/find_way.h"

#include <stddef.h>
#include "core/context.h"

static enum gpucoll_link over_pcie(struct gpucoll_device *device, const struct gpucoll_device_id *peer)
{
    (void)device;
    (void)peer;
    return GPUCOLL_LINK_PCIE;
}

static const char *look(struct gpucoll_context *context, struct gpucoll_device *device)
{
    struct gpucoll_accel *accel = context->accel;
    const struct gpucoll_accel_ops *ops = accel->ops;
    struct gpucoll_accel_ops pcie = *ops;
    struct gpucoll_device_id id;
    ops->device_id(device, &id);
    gpucoll_context_know_way(context, device, &id);
    if (context->topology_tried || accel->topology != NULL) {
        return "the topology was looked for although nothing goes over PCIe";
    }
    pcie.device_link = over_pcie;
    accel->ops = &pcie;
    gpucoll_context_know_way(context, device, &id);
    accel->ops = ops;
    if (!context->topology_tried) {
        return "the topology was not looked for";
    }
    return accel->topology == context->topology ? NULL : "links do not cost what the topology says";
}

const char *test_find_way(struct gpucoll_context *context)
{
    struct gpucoll_device *device = NULL;
    const struct gpucoll_accel_ops *ops = context->accel->ops;
    if (ops->device_open(context->accel, context, &device) != GPUCOLL_OK) {
        return "there is no device";
    }
    const char *wrong = look(context, device);
    ops->device_close(device);
    return wrong;
}
