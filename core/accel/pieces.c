#include "core/accel/pieces.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "core/base/remote_fd.h"

static atomic_bool refused;
static atomic_bool shown;
static atomic_uint open_fds; /* of all handles of this process */

/* A quarter of what the process may have, which is 1024 where nobody has raised it. */
static unsigned most_fds(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return GPUCOLL_HANDLE_PIECES_MAX;
    }
    const rlim_t most = (rlim_t)128 * GPUCOLL_HANDLE_PIECES_MAX;
    return (unsigned)(limit.rlim_cur / 4 < most ? limit.rlim_cur / 4 : most);
}

void gpucoll_pieces_begin(uint64_t address, struct gpucoll_memory_handle *handle)
{
    memset(handle, 0, sizeof(*handle));
    gpucoll_process_id_self(&handle->owner);
    handle->address = address;
    handle->kind = GPUCOLL_HANDLE_PIECES;
}

bool gpucoll_pieces_add(struct gpucoll_accel *accel, struct gpucoll_memory_handle *handle, int fd,
                        uint64_t bytes)
{
    if (handle->piece_count == GPUCOLL_HANDLE_PIECES_MAX || atomic_load(&open_fds) >= most_fds()) {
        close(fd);
        return false;
    }
    gpucoll_remote_fds_allow(accel->log);
    /* Programs that the application starts do not get it: they would keep the memory. */
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    atomic_fetch_add(&open_fds, 1);
    handle->pieces[handle->piece_count++] = (struct gpucoll_memory_piece){.bytes = bytes, .fd = fd};
    handle->bytes += bytes;
    return true;
}

void gpucoll_pieces_close(const struct gpucoll_memory_handle *handle)
{
    for (uint32_t i = 0; handle->kind == GPUCOLL_HANDLE_PIECES && i < handle->piece_count; i++) {
        close(handle->pieces[i].fd);
        atomic_fetch_sub(&open_fds, 1);
    }
}

bool gpucoll_pieces_take(struct gpucoll_accel *accel, const struct gpucoll_memory_handle *handle,
                         int fds[GPUCOLL_HANDLE_PIECES_MAX])
{
    struct gpucoll_remote remote;
    const char *reason = NULL;
    uint32_t count = 0;
    bool all = gpucoll_remote_open(&remote, &handle->owner, &reason);
    while (all && count < handle->piece_count) {
        fds[count] = gpucoll_remote_fd(&remote, handle->pieces[count].fd, &reason);
        all = fds[count] >= 0;
        count += all;
    }
    if (!all) {
        if (errno == EPERM || errno == ENOSYS) {
            atomic_store(&refused, true);
        }
        gpucoll_pieces_show(accel, handle, reason);
        gpucoll_pieces_drop(fds, count);
    }
    gpucoll_remote_close(&remote);
    return all;
}

void gpucoll_pieces_drop(const int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        close(fds[i]);
    }
}

void gpucoll_pieces_show(struct gpucoll_accel *accel, const struct gpucoll_memory_handle *handle,
                         const char *reason)
{
    if (!atomic_exchange(&shown, true)) {
        gpucoll_help(accel->log, "memory-pieces", (unsigned)handle->owner.pid, reason);
    }
}

bool gpucoll_pieces_refused(void)
{
    return atomic_load(&refused);
}
