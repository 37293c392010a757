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

/* What goes to peers is one batch, as far as there are batches; else each copy takes a call. */
static uint64_t most_more(const struct gpucoll_request *request, uint64_t bytes)
{
    return gpucoll_copies_can_batch(request->gpu) ? GPUCOLL_MAX_LOCAL - (request->team->size - 1)
                                                  : ALWAYS_FEW + bytes / BYTES_A_COPY;
}

/* All that would be packed or, since one kernel packs all of it, nothing. */
void gpucoll_copy_list_sends(struct gpucoll_request *request)
{
    struct gpucoll_packing *packing = request->packing;
    struct gpucoll_copy copies[GPUCOLL_MAX_LOCAL];
    uint64_t more = 0; /* copies than there are peers */
    uint64_t bytes = 0;
    for (uint32_t i = 0; packing != NULL && i < packing->sends; i++) {
        const struct gpucoll_packed_run *run = &packing->send[i];
        const struct gpucoll_run_end anywhere = {.flat = packing->memory};
        const uint32_t count =
            gpucoll_copy_list(anywhere, (struct gpucoll_run_end){.packed = run}, run->bytes, copies);
        if (count == 0) {
            return;
        }
        more += run->number == request->team->rank ? 0 : count - 1;
        bytes += run->bytes;
    }
    if (packing != NULL) {
        packing->listed = more <= most_more(request, bytes);
    }
}

struct gpucoll_run_end gpucoll_copy_list_end(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_packing *packing = request->packing;
    struct gpucoll_run_end end = {.flat = request->runs.run[rank].send};
    for (uint32_t i = 0; packing != NULL && packing->listed && i < packing->sends; i++) {
        if (packing->send[i].number == rank) {
            end.packed = &packing->send[i];
        }
    }
    return end;
}
