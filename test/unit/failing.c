#include "test/unit/failing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include "core/context.h"
#include "core/team.h"

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

static _Thread_local unsigned classified;
static _Thread_local unsigned synchronized;
static _Thread_local const struct gpucoll_accel_ops *uncounted;

static void count_classify(struct gpucoll_accel *accel, const void *pointer, struct gpucoll_buffer *buffer)
{
    classified++;
    uncounted->classify(accel, pointer, buffer);
}

static gpucoll_status count_synchronize(struct gpucoll_accel *accel, const void *pointer)
{
    synchronized++;
    return uncounted->synchronize(accel, pointer);
}

void test_count_classified(struct gpucoll_context *context)
{
    static _Thread_local struct gpucoll_accel_ops counting;
    uncounted = context->accel->ops;
    counting = *uncounted;
    counting.classify = count_classify;
    counting.synchronize = count_synchronize;
    context->accel->ops = &counting;
    classified = 0;
    synchronized = 0;
}

unsigned test_classified(void)
{
    return classified;
}

unsigned test_synchronized(void)
{
    return synchronized;
}

static gpucoll_status launch_nothing(struct gpucoll_stream *stream, const struct gpucoll_launch *launch)
{
    (void)stream;
    (void)launch;
    return GPUCOLL_OK;
}

void test_launch_nothing(struct gpucoll_context *context)
{
    static _Thread_local struct gpucoll_accel_ops idle;
    idle = *context->accel->ops;
    idle.launch = launch_nothing;
    context->accel->ops = &idle;
}

static gpucoll_status show_failure(const struct gpucoll_stream *stream, const char *call)
{
    const struct gpucoll_device *device = stream->device;
    gpucoll_help(device->accel->log, "device-error", device->name, device->ordinal, call, "failed on demand");
    return GPUCOLL_ERR_DEVICE;
}

static gpucoll_status fail_launch(struct gpucoll_stream *stream, const struct gpucoll_launch *launch)
{
    (void)launch;
    return show_failure(stream, "launching a kernel");
}

/* As on a GPU, whose kernel has ended without a word. */
static gpucoll_status never_done(struct gpucoll_stream *stream)
{
    (void)stream;
    return GPUCOLL_IN_PROGRESS;
}

static gpucoll_status failed_health(struct gpucoll_stream *stream)
{
    return show_failure(stream, "running a kernel");
}

static _Thread_local const struct gpucoll_accel_ops *before_failure;

void test_fail_device(struct gpucoll_context *context, bool later)
{
    static _Thread_local struct gpucoll_accel_ops failing;
    before_failure = context->accel->ops;
    failing = *context->accel->ops;
    failing.launch = later ? launch_nothing : fail_launch;
    failing.stream_poll = never_done;
    failing.stream_health = failed_health;
    context->accel->ops = &failing;
}

void test_mend_device(struct gpucoll_context *context)
{
    context->accel->ops = before_failure;
}

static enum gpucoll_link no_link(struct gpucoll_device *device, const struct gpucoll_device_id *peer)
{
    (void)device;
    (void)peer;
    return GPUCOLL_LINK_NONE;
}

void test_no_peer_access(struct gpucoll_context *context)
{
    static _Thread_local struct gpucoll_accel_ops apart;
    apart = *context->accel->ops;
    apart.device_link = no_link;
    context->accel->ops = &apart;
}

static _Thread_local unsigned char named;

static bool name_device(struct gpucoll_accel *accel, const struct gpucoll_buffer *buffer,
                        struct gpucoll_device_id *id)
{
    (void)accel;
    (void)buffer;
    *id = (struct gpucoll_device_id){.uuid = {named}};
    return true;
}

void test_device_in_use(struct gpucoll_context *context, unsigned char name)
{
    static _Thread_local struct gpucoll_accel_ops naming;
    naming = *context->accel->ops;
    naming.identify = name_device;
    named = name;
    context->accel->ops = &naming;
}

void test_tell_given_up(struct gpucoll_team *team, uint32_t missing)
{
    team->board->gave_up = team->calls;
    team->board->missing = (struct gpucoll_missing){.count = 1, .rank = {missing}};
    atomic_store_explicit(&team->board->broken, 1, memory_order_release);
}

bool test_keeps_teams(const struct gpucoll_context *context)
{
    return context->owing != NULL;
}

void test_net_ids_again(struct gpucoll_context *context)
{
    context->net_ids = 0;
    context->net_ids_again = true;
}

static _Thread_local size_t scarce;
static _Thread_local unsigned left; /* until there is none; 0: that is over */
static _Thread_local unsigned refused;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
    const bool last = left > 0 && --left == 0;
    if (last || (scarce != 0 && count * bytes >= scarce)) {
        refused++;
        return NULL;
    }
    return __real_calloc(count, bytes);
}

void test_no_memory_from(size_t bytes)
{
    scarce = bytes;
    left = 0;
    refused = 0;
}

void test_no_memory_once_after(unsigned times)
{
    scarce = 0;
    left = times + 1;
    refused = 0;
}

unsigned test_memory_refused(void)
{
    return refused;
}

static _Thread_local unsigned interruptions;

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    if (interruptions > 0) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return __real_fallocate(fd, mode, offset, bytes);
}

void test_interrupt_reserving(unsigned times)
{
    interruptions = times;
}
