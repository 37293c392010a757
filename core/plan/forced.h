/*
 * What parameters force: the algorithm of a collective and the protocol. Their values are names from the table of algorithms, or
 * names by size: "oneshot:16K,twoshot" is oneshot for messages of up to 16 KiB, twoshot for larger ones.
 */
#ifndef GPUCOLL_FORCED_H
#define GPUCOLL_FORCED_H

#include <string.h>
#include "core/plan/algorithm.h"

enum { GPUCOLL_FORCED_NAME = 32, GPUCOLL_FORCED_VALUES = 256 };

/* What a parameter accepts, as its row's `values`: for an algorithm or the protocol the names, which are written to `text`, of
 * GPUCOLL_FORCED_VALUES bytes. NULL: anything of its type. */
const char *gpucoll_forced_values(const struct gpucoll_config_row *row, char *text);

/* Checks algorithms and protocol, after gpucoll_config_check: a value that is not of names in the table is
 * shown by help topic "bad-parameter" and set back to its default. True if there was none. */
bool gpucoll_forced_check(struct gpucoll_config *config, const struct gpucoll_log *log);

/* The name that a checked value has for messages of `bytes`; "auto" if it leaves the choice. Of GPUCOLL_FORCED_NAME bytes. */
void gpucoll_forced_name(const char *value, uint64_t bytes, char *name);

/* Has a checked value one item for messages of all sizes from `low` to `high`? */
bool gpucoll_forced_alike(const char *value, uint64_t low, uint64_t high);

static inline bool gpucoll_forces(const char *name)
{
    return strcmp(name, "auto") != 0;
}

#endif
