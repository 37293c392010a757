#include "bench/coll.h"

#include <string.h>

static const struct bench_coll *const rows[] = {
    &bench_allreduce,
};

const struct bench_coll *bench_coll_row(int index)
{
    return index >= 0 && index < (int)(sizeof(rows) / sizeof(rows[0])) ? rows[index] : NULL;
}

const struct bench_coll *bench_coll_find(const char *name)
{
    const struct bench_coll *row;
    for (int i = 0; (row = bench_coll_row(i)) != NULL; i++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

const char *bench_check_name(enum bench_check check)
{
    static const char *const names[] = {"ok", "ok, bits differ", "WRONG"};
    return names[check];
}
