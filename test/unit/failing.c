#include "test/unit/failing.h"

#include <stdatomic.h>
#include "core/context.h"

static _Atomic uint64_t unmappable;
static const struct gpucoll_accel_ops *_Atomic usual;

static gpucoll_status import(struct gpucoll_device *device, const struct gpucoll_memory_handle *handle,
                             void **pointer)
{
    return atomic_load(&unmappable) - handle->address < handle->bytes
               ? GPUCOLL_ERR_SYSTEM
               : atomic_load(&usual)->import(device, handle, pointer);
}

void test_heed_unmappable(struct gpucoll_context *context)
{
    static _Thread_local struct gpucoll_accel_ops heeding;
    atomic_store(&usual, context->accel->ops);
    heeding = *context->accel->ops;
    heeding.import = import;
    context->accel->ops = &heeding;
}

void test_unmappable(const void *place)
{
    atomic_store(&unmappable, (uintptr_t)place);
}

static _Thread_local size_t scarce;
static _Thread_local unsigned refused;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
    if (scarce != 0 && count * bytes >= scarce) {
        refused++;
        return NULL;
    }
    return __real_calloc(count, bytes);
}

void test_no_memory_from(size_t bytes)
{
    scarce = bytes;
    refused = 0;
}

unsigned test_memory_refused(void)
{
    return refused;
}
