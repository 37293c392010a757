#include "ucx_tl/tl.h"

#include <stdbool.h>
#include <string.h>

/* GPUs that store into each other's memory more slowly than this do so over PCIe, where host memory may be the faster way: then both
 * are made, and the cost model chooses. Bytes/s; the fastest PCIe of the day has 50e9. */
static const double slow_stores = 60e9;

static const struct gpucoll_tl_ops *const rows[] = {&gpucoll_tl_p2p, &gpucoll_tl_shm, &gpucoll_tl_cpu_reduce};

const struct gpucoll_tl_ops *gpucoll_tl_row(int index)
{
    return index >= 0 && index < (int)(sizeof rows / sizeof rows[0]) ? rows[index] : NULL;
}

const char gpucoll_tl_rdma_help[] =
    "between hosts, over UCX: InfiniBand, RoCE or TCP; alone, it carries the data between all ranks";

static bool is_name(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && strncmp(text, name, length) == 0;
}

static bool is_known(const char *text, size_t length)
{
    const struct gpucoll_tl_ops *tl;
    int i = 0;
    while ((tl = gpucoll_tl_row(i)) != NULL && !is_name(text, length, tl->name)) {
        i++;
    }
    return tl != NULL || is_name(text, length, GPUCOLL_TL_RDMA);
}

bool gpucoll_tl_all_known(const char *allowed)
{
    bool word = strcmp(allowed, "all") == 0 || strcmp(allowed, "none") == 0;
    const char *at = word ? NULL : allowed;
    while (at != NULL) {
        size_t length = strcspn(at, ",");
        if (!is_known(at, length)) {
            return false;
        }
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return true;
}

/* Is `name` in the comma-separated `list`, or the list "all"? */
static bool listed(const char *list, const char *name)
{
    if (strcmp(list, "all") == 0) {
        return true;
    }
    size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

bool gpucoll_tl_spans(const char *allowed)
{
    return listed(allowed, GPUCOLL_TL_RDMA);
}

bool gpucoll_tl_only_spans(const char *allowed)
{
    return gpucoll_tl_spans(allowed) && gpucoll_tl_allowed_ways(allowed) == 0;
}

bool gpucoll_tl_is_allowed(const char *allowed, const struct gpucoll_tl_ops *tl)
{
    return listed(allowed, tl->name);
}

unsigned gpucoll_tl_allowed_ways(const char *allowed)
{
    unsigned ways = 0;
    const struct gpucoll_tl_ops *tl;
    for (int i = 0; (tl = gpucoll_tl_row(i)) != NULL; i++) {
        ways |= listed(allowed, tl->name) ? tl->does : 0;
    }
    return ways;
}

unsigned gpucoll_tl_team_ways(const char *allowed, bool stores, bool in_turn, double bandwidth)
{
    const unsigned ways = gpucoll_tl_allowed_ways(allowed);
    const unsigned direct = stores ? ways & GPUCOLL_TL_STORES : 0;
    if ((ways & GPUCOLL_TL_PIPES) == 0) {
        return direct;
    }
    bool alone = direct != 0 && !in_turn && bandwidth >= slow_stores && strcmp(allowed, "all") == 0;
    return alone ? direct : direct | (ways & ~(unsigned)GPUCOLL_TL_STORES);
}

const struct gpucoll_tl_ops *gpucoll_tl_choose(const char *allowed, enum gpucoll_tl_way way,
                                               struct gpucoll_device *device,
                                               const struct gpucoll_tl_card *peer,
                                               struct gpucoll_tl_cost *cost)
{
    memset(cost, 0, sizeof *cost);
    cost->reason = "no transport is allowed by coll_gpucoll_transports";
    const struct gpucoll_tl_ops *tl;
    for (int i = 0; (tl = gpucoll_tl_row(i)) != NULL; i++) {
        if ((tl->does & way) && listed(allowed, tl->name)) {
            tl->query(device, peer, cost);
            if (cost->reachable) {
                return tl;
            }
        }
    }
    return NULL;
}
