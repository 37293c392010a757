/*
 * Packing and unpacking on the host, by the same search for a packed position as the kernel's.
 */
#include <string.h>
#include "core/accel/host_kernels.h"

static void run_job(const struct gpucoll_pack_args *args, const struct gpucoll_pack_job *job, uint64_t bytes)
{
    uint64_t position = 0;
    while (position < bytes) {
        uint64_t together = 0;
        char *user = (char *)job->user + gpucoll_layout_find(&args->view, position, &together);
        char *packed = (char *)job->packed + position;
        together = together < bytes - position ? together : bytes - position;
        memcpy(args->unpack ? user : packed, args->unpack ? packed : user, together);
        position += together;
    }
}

void gpucoll_host_pack(const struct gpucoll_pack_args *args)
{
    uint64_t begin = 0;
    for (uint32_t i = 0; i < args->jobs; i++) {
        run_job(args, &args->job[i], args->job[i].end - begin);
        begin = args->job[i].end;
    }
    __atomic_store_n(&args->status->done, args->done_value, __ATOMIC_RELEASE);
}
