/*
 * Exports: allocations of the application that peers may write to and read from directly. An allocation is exported when it
 * is used by a large call for the second time, so that buffers which are used once cost nothing. The process keeps a bounded
 * table of them on its board; an entry has a key that is never used again, and peers map it when they first meet its
 * key in a post (core/peer.h). What the application has freed is dropped from the table when a new entry is made,
 * and peers then unmap it at their next mapping.
 */
#ifndef GPUCOLL_EXPORTS_H
#define GPUCOLL_EXPORTS_H

#include "core/board.h"
#include "core/gpu.h"

enum gpucoll_export_state {
    GPUCOLL_EXPORT_FREE,
    GPUCOLL_EXPORT_SEEN, /* used once */
    GPUCOLL_EXPORT_READY,
    GPUCOLL_EXPORT_REFUSED /* cannot be shared */
};

struct gpucoll_export {
    enum gpucoll_export_state state;
    uint32_t users;  /* calls under way: it stays */
    uint64_t id;     /* of the allocation, as the accelerator tells */
    uint64_t key;    /* when ready; never 0 */
    uintptr_t begin; /* of the allocation, once exported; until then an address in it */
    uint64_t bytes;  /* once exported */
    uint64_t latest; /* use, by the table's count of uses */
};

struct gpucoll_exports {
    struct gpucoll_export entries[GPUCOLL_BOARD_EXPORTS];
    uint64_t uses;
    uint64_t keys;
};

/* The export of the allocation `buffer` that holds all of [pointer, pointer + bytes); its users are raised. NULL if there is none
 * (yet). Caller serialises. */
struct gpucoll_export *gpucoll_export_take(struct gpucoll_exports *exports, struct gpucoll_board *board,
                                           const struct gpucoll_gpu *gpu, const struct gpucoll_buffer *buffer,
                                           const void *pointer, uint64_t bytes);
void gpucoll_export_give(struct gpucoll_export *entry); /* caller serialises */

#endif
