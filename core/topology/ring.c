#include "core/topology/ring.h"

enum {
    MOST_LOOKS = 100000
}; /* a millisecond: machines with so many ranks and so few links are rings, or have none */

struct search {
    const uint32_t *near;
    uint32_t nranks;
    uint32_t *order;
    uint32_t looks;
};

static bool is_near(const struct search *search, uint32_t a, uint32_t b)
{
    return (search->near[a] >> b & 1) != 0 && (search->near[b] >> a & 1) != 0;
}

/* With the ranks of `taken` in the first `length` places, depth first. */
static bool extend(struct search *search, uint32_t length, uint32_t taken)
{
    const uint32_t last = search->order[length - 1];
    if (length == search->nranks) {
        return is_near(search, last, search->order[0]);
    }
    for (uint32_t next = 1; next < search->nranks; next++) {
        if ((taken >> next & 1) != 0 || !is_near(search, last, next)) {
            continue;
        }
        if (++search->looks > MOST_LOOKS) {
            return false;
        }
        search->order[length] = next;
        if (extend(search, length + 1, taken | 1u << next)) {
            return true;
        }
    }
    return false;
}

bool gpucoll_ring_order(const uint32_t *near, uint32_t nranks, uint32_t *order)
{
    struct search search = {.near = near, .nranks = nranks, .order = order};
    order[0] = 0;
    const bool found = nranks == 1 || extend(&search, 1, 1);
    for (uint32_t i = 0; i < nranks && !found; i++) {
        order[i] = i;
    }
    return found;
}
