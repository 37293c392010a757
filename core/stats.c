#include "core/stats.h"

#include <stdio.h>
#include <string.h>
#include "core/plan/algorithm.h"

const char *gpucoll_form_name(enum gpucoll_form form)
{
    static const char *const names[] = {"blocking", "nonblocking", "persistent"};
    return names[form];
}

const char *gpucoll_way_name(enum gpucoll_way way)
{
    static const char *const names[] = {"native", "staged", "passed"};
    return names[way];
}

const char *gpucoll_reason_text(enum gpucoll_reason reason)
{
    static const char *const texts[GPUCOLL_REASON_COUNT] = {
        [GPUCOLL_REASON_NONE] = "no reason",
        [GPUCOLL_REASON_PASSED] = "a rank has no device memory",
        [GPUCOLL_REASON_MEMORY] = "a rank's buffers are not device memory of one GPU",
        [GPUCOLL_REASON_LAYOUT] = "a rank's datatype cannot be packed on the device",
        [GPUCOLL_REASON_PACKING] = "a rank has no device memory to pack in (coll_gpucoll_pack_bytes)",
        [GPUCOLL_REASON_OVERLAP] = "a rank's send and receive buffers overlap",
        [GPUCOLL_REASON_GPU] = "a rank's GPU could not be bound",
        [GPUCOLL_REASON_LANES] = "a rank has no free lane (coll_gpucoll_lanes)",
        [GPUCOLL_REASON_LINKS] = "a rank's GPU cannot reach another's",
        [GPUCOLL_REASON_PLAN] = "no algorithm can run it",
        [GPUCOLL_REASON_GIVEN_UP] = "an earlier call of the communicator has failed",
        [GPUCOLL_REASON_HOST_MEMORY] = "a rank is out of host memory",
        [GPUCOLL_REASON_SMALL] = "a small call of many ranks on one host, which others run faster",
        [GPUCOLL_REASON_COUNTS] = "what is sent to a rank is not as long as it expects",
        [GPUCOLL_REASON_TEAM] = "the communicator is not native (coll_gpucoll_verbose 1 says why)",
        [GPUCOLL_REASON_OPERAND] =
            "no kernel for this operator on this type, no data, or a call such as Open MPI makes itself",
        [GPUCOLL_REASON_FORM] = "not native in this form",
        [GPUCOLL_REASON_PARAMETER] = "turned off (coll_gpucoll_nonblocking, coll_gpucoll_neighborhood)",
    };
    return (unsigned)reason < GPUCOLL_REASON_COUNT ? texts[reason] : "unknown";
}

void gpucoll_stats_start(struct gpucoll_stats *stats)
{
    gpucoll_tick_ns(); /* measured now rather than between two calls */
    __atomic_store_n(&stats->on, true, __ATOMIC_RELEASE);
}

_Static_assert(sizeof(struct gpucoll_stats_key) == 8, "a key is one word, without padding");

static uint64_t pack(struct gpucoll_stats_key key)
{
    uint64_t word;
    memcpy(&word, &key, sizeof word);
    return word;
}

/* The row of the key, taken now if it is new; NULL if there is no room near its place. */
static struct gpucoll_stats_row *find(struct gpucoll_stats *stats, uint64_t key)
{
    enum { PROBES = 32 };
    _Static_assert(GPUCOLL_STATS_ROWS == 512, "the place is the hash's top 9 bits");
    const uint64_t place = (key * 0x9E3779B97F4A7C15u) >> 55;
    for (uint64_t i = 0; i < PROBES; i++) {
        struct gpucoll_stats_row *row = &stats->rows[(place + i) % GPUCOLL_STATS_ROWS];
        uint64_t found = __atomic_load_n(&row->key, __ATOMIC_RELAXED);
        if (found == 0 &&
            __atomic_compare_exchange_n(&row->key, &found, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            return row;
        }
        if (found == key) {
            return row;
        }
    }
    return NULL;
}

/* No locked instruction. */
static void grow(uint64_t *sum, uint64_t more)
{
    __atomic_store_n(sum, __atomic_load_n(sum, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

void gpucoll_stats_add(struct gpucoll_stats *stats, struct gpucoll_stats_key key, uint64_t bytes,
                       uint64_t waiting_ticks, uint64_t running_ticks)
{
    __atomic_store_n(&stats->latest[key.coll], (uint16_t)((key.way + 1) << 8 | key.detail), __ATOMIC_RELAXED);
    struct gpucoll_stats_row *row = find(stats, pack(key));
    if (row == NULL) {
        grow(&stats->left_out, 1);
        return;
    }
    grow(&row->calls, 1);
    grow(&row->bytes, bytes);
    grow(&row->waiting, waiting_ticks);
    grow(&row->running, running_ticks);
}

bool gpucoll_stats_read(const struct gpucoll_stats *stats, int index, struct gpucoll_stats_entry *entry)
{
    const struct gpucoll_stats_row *row = &stats->rows[index];
    uint64_t key = __atomic_load_n(&row->key, __ATOMIC_RELAXED);
    if (key == 0) {
        return false;
    }
    const double tick_us = gpucoll_tick_ns() / 1e3;
    memcpy(&entry->key, &key, sizeof entry->key);
    entry->calls = __atomic_load_n(&row->calls, __ATOMIC_RELAXED);
    entry->bytes = __atomic_load_n(&row->bytes, __ATOMIC_RELAXED);
    entry->waiting_us = (double)__atomic_load_n(&row->waiting, __ATOMIC_RELAXED) * tick_us;
    entry->running_us = (double)__atomic_load_n(&row->running, __ATOMIC_RELAXED) * tick_us;
    return true;
}

void gpucoll_stats_way(enum gpucoll_way way, uint8_t detail, char *text, size_t size)
{
    const struct gpucoll_algorithm *row = gpucoll_algorithm_row(detail);
    if (way != GPUCOLL_WAY_NATIVE) {
        snprintf(text, size, "%s", gpucoll_way_name(way));
    } else if (detail == GPUCOLL_DETAIL_HOSTS) {
        snprintf(text, size, "hosts");
    } else if (detail == GPUCOLL_DETAIL_BOARD) {
        snprintf(text, size, "board");
    } else if (detail == GPUCOLL_DETAIL_LOCAL) {
        snprintf(text, size, "local");
    } else if (row == NULL) {
        snprintf(text, size, "copy");
    } else {
        snprintf(text, size, "%s/%s", row->name, row->protocol);
    }
}
