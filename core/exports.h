/*
 * Exports: allocations of the application that peers may write to and read from directly. An allocation is exported when it
 * is used by a large call for the second time, so that buffers which are used once cost nothing. The process keeps a bounded
 * table of them on its board; an entry has a key that is never used again, and peers map it when they first meet its
 * key in a post (core/peer.h). What the application has freed is dropped from the table when a new entry is made,
 * and peers then unmap it at their next mapping.
 *
 * A buffer may lie in several allocations that cuMemMap has put one behind the other. They are exported together, as long as they are
 * the same ones: what stands for an allocation here is then the whole of those that the buffer touches.
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
    uint64_t id;     /* of the allocation, as gpucoll_export_identify tells */
    uint64_t key;    /* when ready; never 0 */
    uintptr_t begin; /* of the allocation, once exported; until then of the buffer in it */
    uint64_t bytes;
    uint64_t latest; /* use, by the table's count of uses */
};

struct gpucoll_exports {
    struct gpucoll_export entries[GPUCOLL_BOARD_EXPORTS];
    uint64_t uses;
    uint64_t keys;
};

/* A place of which the driver has said to which allocation it belongs. NULL: none. */
struct gpucoll_place {
    const void *pointer;
    uint64_t id;
};
enum { GPUCOLL_PLACES = 2 };

/* What tells the allocation that holds device memory [pointer, pointer + bytes), bytes > 0, from all others of this process, freed ones too;
 * 0: nothing does. Of several it is made from the number of each, so that it changes with any of them. `places`, GPUCOLL_PLACES of them, the driver has
 * been asked for since the call came, and is not asked again where they tell. Caller serialises. */
uint64_t gpucoll_export_identify(struct gpucoll_exports *exports, const struct gpucoll_gpu *gpu,
                                 const struct gpucoll_place *places, const void *pointer, uint64_t bytes);
/* The export of the allocation `id` that holds all of [pointer, pointer + bytes); its users are raised. NULL if there is none
 * (yet). Caller serialises. */
struct gpucoll_export *gpucoll_export_take(struct gpucoll_exports *exports, struct gpucoll_board *board,
                                           const struct gpucoll_gpu *gpu, uint64_t id, const void *pointer,
                                           uint64_t bytes);
void gpucoll_export_give(struct gpucoll_export *entry); /* caller serialises */
/* Takes all out of the board, before it is closed. */
void gpucoll_exports_close(struct gpucoll_exports *exports, struct gpucoll_board *board,
                           struct gpucoll_accel *accel);

#endif
