/*
 * Packing and unpacking on the host, by the same search for a packed position as the kernel's.
 */
#include <string.h>
#include "core/accel/host_kernels.h"

void gpucoll_host_copy_laid(const struct gpucoll_layout_view *layout, char *user, uint64_t at, uint64_t bytes,
                            char *packed, bool to_user)
{
    for (uint64_t done = 0; done < bytes;) {
        uint64_t together = 0;
        char *place = user + gpucoll_layout_find(layout, at + done, &together);
        together = together < bytes - done ? together : bytes - done;
        memcpy(to_user ? place : packed + done, to_user ? packed + done : place, together);
        done += together;
    }
}

void gpucoll_host_pack(const struct gpucoll_pack_args *args)
{
    uint64_t begin = 0;
    for (uint32_t i = 0; i < args->jobs; i++) {
        const struct gpucoll_pack_job *job = &args->job[i];
        gpucoll_host_copy_laid(&args->view, job->user, 0, job->end - begin, job->packed, args->unpack != 0);
        begin = args->job[i].end;
    }
    __atomic_store_n(&args->status->done, args->done_value, __ATOMIC_RELEASE);
}
