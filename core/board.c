#include "core/board.h"

#include <string.h>

/* Regions start on a page of their own behind the header. */
static const size_t regions_offset = (sizeof(struct gpucoll_board_header) + 4095) / 4096 * 4096;
static const size_t regions_bytes = GPUCOLL_BOARD_TEAMS * sizeof(struct gpucoll_team_board);

struct gpucoll_board_header *gpucoll_board_header(const struct gpucoll_segment *segment)
{
    return segment->user;
}

struct gpucoll_team_board *gpucoll_board_team(const struct gpucoll_segment *segment, uint32_t index)
{
    char *regions = (char *)segment->user + regions_offset;
    return (struct gpucoll_team_board *)(regions + index * sizeof(struct gpucoll_team_board));
}

/* GPUCOLL_BOARD_TEAMS regions fill pages. */
struct gpucoll_board_shelf *gpucoll_board_shelf(const struct gpucoll_segment *segment, uint32_t index)
{
    char *shelves = (char *)segment->user + regions_offset + regions_bytes;
    return (struct gpucoll_board_shelf *)shelves + index;
}

gpucoll_status gpucoll_board_create(struct gpucoll_board *board, const struct gpucoll_log *log)
{
    memset(board, 0, sizeof *board);
    for (uint32_t i = 0; i < GPUCOLL_BOARD_SHELVES; i++) {
        gpucoll_board_give_shelf(board, i);
    }
    const size_t bytes =
        regions_offset + regions_bytes + GPUCOLL_BOARD_SHELVES * sizeof(struct gpucoll_board_shelf);
    gpucoll_status status = gpucoll_segment_create(&board->segment, bytes, log);
    if (status == GPUCOLL_OK) {
        board->header = gpucoll_board_header(&board->segment);
    }
    return status;
}

void gpucoll_board_close(struct gpucoll_board *board)
{
    gpucoll_segment_close(&board->segment);
    memset(board, 0, sizeof *board);
}

gpucoll_status gpucoll_board_take(struct gpucoll_board *board, uint32_t *index)
{
    if (board->taken >= GPUCOLL_BOARD_TEAMS - GPUCOLL_BOARD_RESTING) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    uint32_t at = board->next % GPUCOLL_BOARD_TEAMS;
    while ((board->used[at / 64] >> at % 64 & 1) != 0) {
        at = (at + 1) % GPUCOLL_BOARD_TEAMS;
    }
    board->used[at / 64] |= (uint64_t)1 << (at % 64);
    board->taken++;
    board->next = at + 1;
    *index = at;
    struct gpucoll_team_board *team = gpucoll_board_team(&board->segment, at);
    memset(team, 0, sizeof(*team));
    atomic_init(&team->ring[0].call, 1); /* of no call that stands there, not even of number 2^32 */
    return GPUCOLL_OK;
}

void gpucoll_board_give(struct gpucoll_board *board, uint32_t index)
{
    board->used[index / 64] &= ~((uint64_t)1 << (index % 64));
    board->taken--;
}

bool gpucoll_board_take_shelf(struct gpucoll_board *board, uint32_t *index)
{
    if (board->shelves_given - board->shelves_taken <= GPUCOLL_BOARD_RESTING) {
        return false;
    }
    *index = board->shelves[board->shelves_taken++ % GPUCOLL_BOARD_SHELVES];
    return true;
}

void gpucoll_board_give_shelf(struct gpucoll_board *board, uint32_t index)
{
    board->shelves[board->shelves_given++ % GPUCOLL_BOARD_SHELVES] = (uint8_t)index;
}

int gpucoll_board_publish(struct gpucoll_board *board, const struct gpucoll_tl_card *card)
{
    uint32_t count = atomic_load_explicit(&board->header->card_count, memory_order_relaxed);
    if (count == GPUCOLL_BOARD_CARDS) {
        return -1;
    }
    board->header->cards[count] = *card;
    atomic_store_explicit(&board->header->card_count, count + 1, memory_order_release);
    return (int)count;
}

void gpucoll_board_export(struct gpucoll_board *board, uint32_t index, uint64_t key,
                          const struct gpucoll_memory_handle *handle)
{
    struct gpucoll_board_export *entry = &board->header->exports[index];
    atomic_store_explicit(&entry->key, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    if (key != 0) {
        entry->handle = *handle;
        atomic_store_explicit(&entry->key, key, memory_order_release);
    }
}

bool gpucoll_board_read_export(const struct gpucoll_segment *segment, uint64_t key,
                               struct gpucoll_memory_handle *handle)
{
    struct gpucoll_board_export *entry = &gpucoll_board_header(segment)->exports[gpucoll_export_index(key)];
    if (atomic_load_explicit(&entry->key, memory_order_acquire) != key) {
        return false;
    }
    *handle = entry->handle;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->key, memory_order_relaxed) == key;
}
