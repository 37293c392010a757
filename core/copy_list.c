#include "core/copy_list.h"

#include "core/base/sizes.h"
#include "core/layout.h"

/* Packing and unpacking launch two kernels, which takes as long as some copies, and move each byte twice more, at some 2 TB/s: a copy of a piece
 * takes the host 3 us, if they are not one batch. */
enum { ALWAYS_FEW = 4, BYTES_A_COPY = 3 << 20 };

/* Where the byte at packed position `at` of an end lies, and how many from there on lie together. */
static char *find_piece(struct gpucoll_run_end end, uint64_t at, uint64_t *together)
{
    if (end.packed == NULL) {
        *together = UINT64_MAX;
        return (char *)(uintptr_t)end.flat + at;
    }
    return (char *)end.packed->user + gpucoll_layout_find(&end.packed->layout->view, at, together);
}

uint32_t gpucoll_copy_list(struct gpucoll_run_end to, struct gpucoll_run_end from, uint64_t bytes,
                           struct gpucoll_copy *copies)
{
    const uint64_t most = gpucoll_smaller(ALWAYS_FEW + bytes / BYTES_A_COPY, GPUCOLL_MAX_LOCAL);
    uint32_t count = 0;
    for (uint64_t at = 0; at < bytes; at += copies[count++].bytes) {
        if (count == most) {
            return 0;
        }
        uint64_t here = 0;
        uint64_t there = 0;
        copies[count].from = find_piece(from, at, &here);
        copies[count].to = find_piece(to, at, &there);
        copies[count].bytes = gpucoll_smaller(gpucoll_smaller(here, there), bytes - at);
    }
    return count;
}

void gpucoll_copy_list_sends(struct gpucoll_request *request)
{
    struct gpucoll_packing *packing = request->packing;
    struct gpucoll_copy copies[GPUCOLL_MAX_LOCAL];
    uint32_t left = GPUCOLL_MAX_LOCAL - request->team->size; /* all are one batch */
    for (uint32_t i = 0; packing != NULL && i < packing->sends; i++) {
        struct gpucoll_packed_run *run = &packing->send[i];
        const struct gpucoll_run_end from = {.packed = run};
        const struct gpucoll_run_end anywhere = {.flat = packing->memory};
        const uint32_t count = gpucoll_copy_list(anywhere, from, run->bytes, copies);
        if (count > 0 && count - 1 <= left) {
            left -= count - 1;
            run->listed = true;
            packing->listed++;
        }
    }
}

struct gpucoll_run_end gpucoll_copy_list_end(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_packing *packing = request->packing;
    struct gpucoll_run_end end = {.flat = request->runs.run[rank].send};
    for (uint32_t i = 0; packing != NULL && i < packing->sends; i++) {
        if (packing->send[i].number == rank && packing->send[i].listed) {
            end.packed = &packing->send[i];
        }
    }
    return end;
}
