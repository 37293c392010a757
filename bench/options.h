/*
 * The command lines of the benchmark programs: one table of options, each row with the programs that take it.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include "bench/coll.h"
#include "bench/data.h"

#ifdef __cplusplus
extern "C" {
#endif

enum bench_program_id { BENCH_DEMO = 1, BENCH_GOOGLE = 2, BENCH_COMPARE = 4, BENCH_ALL = 7, BENCH_IDLE = 8 };

struct bench_options {
    size_t min; /* bytes */
    size_t max;
    size_t bytes;   /* bench_idle: of its call */
    bool doubling;  /* every power of two between */
    int iterations; /* 0: by size */
    const struct bench_coll *coll;
    const struct bench_type *type;
    const struct bench_op *op;
    bool in_place;
    bool stage;
    const char *memory; /* auto | cuda | host */
    const char *label;
    const char *json;
    const char *compare;
    const char *nccl;      /* auto, or a path */
    const char *cublas;    /* likewise */
    const char *libraries; /* all | mpi | nccl */
    /* Lists, comma between the names, or all. */
    const char *collectives;
    const char *passes;
    const char *forms;
    const char *buffers;
    const char *calls;
    const char *check; /* windows | all */
    int budget_s;      /* 0: none */
    int pause_us;
    int in_a_row; /* 0: 1 */
};

enum bench_parsed { BENCH_PARSED_OK, BENCH_PARSED_HELP, BENCH_PARSED_BAD };

/* Sets `options` to the program's defaults, then from the command line. What is not understood is named on standard
 * error, and the help shown on standard output, by the caller with `speak` true (rank 0) alone. */
enum bench_parsed bench_options_parse(struct bench_options *options, enum bench_program_id program, int argc,
                                      char **argv, bool speak);

/* Whether `name` is in one of the lists among the options. */
bool bench_is_listed(const char *list, const char *name);

/* Whether the collective is among those that the options ask for. */
bool bench_is_wanted(const struct bench_options *options, const struct bench_coll *coll);

/* "8", "64K", "4M", "1G" in `text` (of 16 bytes at least), exact where a unit fits, else bytes. */
const char *bench_size_text(size_t bytes, char *text);

#ifdef __cplusplus
}
#endif
#endif
