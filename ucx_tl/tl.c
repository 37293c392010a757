#include "ucx_tl/tl.h"

#include <stdbool.h>
#include <string.h>

static const struct gpucoll_tl_ops *const rows[] = {&gpucoll_tl_p2p};

const struct gpucoll_tl_ops *gpucoll_tl_row(int index)
{
    return index >= 0 && index < (int)(sizeof rows / sizeof rows[0]) ? rows[index] : NULL;
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

const struct gpucoll_tl_ops *gpucoll_tl_choose(const char *allowed, struct gpucoll_device *device,
                                               const struct gpucoll_tl_card *peer,
                                               struct gpucoll_tl_cost *cost)
{
    memset(cost, 0, sizeof *cost);
    cost->reason = "no transport is allowed by coll_gpucoll_transports";
    const struct gpucoll_tl_ops *tl;
    for (int i = 0; (tl = gpucoll_tl_row(i)) != NULL; i++) {
        if (listed(allowed, tl->name)) {
            tl->query(device, peer, cost);
            if (cost->reachable) {
                return tl;
            }
        }
    }
    return NULL;
}
