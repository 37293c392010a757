#include "bench/options.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/measure.h"

enum kind { SIZE, COUNT, TYPE, OP, FLAG, TEXT, LIST };

struct option_row {
    const char *name;
    const char *value; /* how it is shown in the help; for TEXT and LIST "a|b|c" is what is accepted */
    const char *help;
    enum kind kind;
    size_t offset;
    unsigned programs;
};

#define FIELD(name) offsetof(struct bench_options, name)
static const struct option_row rows[] = {
    {"--min", "SIZE", "smallest message, such as 8 or 64K (8)", SIZE, FIELD(min), BENCH_ALL},
    {"--max", "SIZE", "largest message (64M; bench_*: 1G)", SIZE, FIELD(max), BENCH_ALL},
    {"--bytes", "SIZE", "of the MPI_Allreduce after which is measured what it leaves behind (8)", SIZE,
     FIELD(bytes), BENCH_IDLE},
    {"--doubling", NULL, "every power of two between, not only some", FLAG, FIELD(doubling), BENCH_ALL},
    {"--iterations", "N",
     "timed calls of each size (500 up to 64K, 100 up to 16M, 20 above; bench_idle: samples, 200)", COUNT,
     FIELD(iterations), BENCH_ALL | BENCH_IDLE},
    {"--collectives",
     "all|more|allreduce|reduce|bcast|allgather|reduce_scatter|reduce_scatter_block|alltoall|gather|scatter|"
     "barrier|"
     "scan|exscan|reduce_local|allgatherv|allgatherv_uneven|gatherv|gatherv_uneven|scatterv|scatterv_uneven|"
     "alltoallv|alltoallv_uneven|alltoallw|alltoallw_uneven|"
     "neighbor_allgather|neighbor_allgatherv|neighbor_alltoall|neighbor_alltoallv|neighbor_alltoallw",
     "what is measured: names with commas between them; all: those up to barrier; more: the further ones, "
     "which "
     "bench_compare measures at fewer sizes (allreduce; bench_mpi: all)",
     LIST, FIELD(collectives), BENCH_GOOGLE | BENCH_COMPARE},
    {"--passes", "blocking|overlap|in-place|nonblocking|persistent|host",
     "ways of calling, or all; with several, all but the first are measured at fewer sizes (blocking)", LIST,
     FIELD(passes), BENCH_COMPARE},
    {"--forms", "blocking|nonblocking|persistent", "forms of the call, or all (all)", LIST, FIELD(forms),
     BENCH_GOOGLE},
    {"--buffers", "device|host", "memory that the buffers are in, or all (all)", LIST, FIELD(buffers),
     BENCH_GOOGLE},
    {"--calls", "steady|first|beside",
     "calls one after the other, the first on a new communicator, beside computation; or all (all)", LIST,
     FIELD(calls), BENCH_GOOGLE},
    {"--budget", "SECONDS", "fewer calls where all would take longer than this, and at last fewer sizes",
     COUNT, FIELD(budget_s), BENCH_COMPARE},
    {"--pause", "US", "each call a random time of up to this after the barrier, the same on all ranks (none)", COUNT,
     FIELD(pause_us), BENCH_COMPARE},
    {"--in-a-row", "N",
     "of the pass overlap: calls one after the other, beside a computation as long as all of them (1)", COUNT,
     FIELD(in_a_row), BENCH_COMPARE},
    {"--check", "windows|all",
     "what of messages above 2 MiB is compared: windows of 1 MiB in all, or everything", TEXT, FIELD(check),
     BENCH_ALL},
    {"--type", "float|double|int|long|spaced",
     "element type (float); spaced: doubles and gaps as wide, a derived type, of which sizes count the gaps",
     TYPE, FIELD(type), BENCH_ALL},
    {"--op", "sum|prod|max|min", "reduction (sum)", OP, FIELD(op), BENCH_ALL},
    {"--in-place", NULL, "in place (MPI_IN_PLACE)", FLAG, FIELD(in_place), BENCH_DEMO},
    {"--memory", "auto|cuda|host", "where the buffers are; auto: on a GPU if there is one (auto)", TEXT,
     FIELD(memory), BENCH_ALL | BENCH_IDLE},
    {"--stage", NULL,
     "copy buffers that are on a GPU through host memory around each MPI call, as an MPI without GPU support "
     "needs",
     FLAG, FIELD(stage), BENCH_ALL},
    {"--label", "NAME", "what the results of MPI are called (gpucoll)", TEXT, FIELD(label), BENCH_ALL},
    {"--json", "FILE", "write the results to FILE", TEXT, FIELD(json),
     BENCH_DEMO | BENCH_COMPARE | BENCH_IDLE},
    {"--compare", "FILE", "show the results of an earlier run, written by --json, beside these", TEXT,
     FIELD(compare), BENCH_DEMO},
    {"--nccl", "PATH", "the NCCL library (auto: the dynamic linker's, else one of a Python package)", TEXT,
     FIELD(nccl), BENCH_COMPARE},
    {"--cublas", "PATH", "the cuBLAS library for the computation of overlap, found as NCCL is (auto)", TEXT,
     FIELD(cublas), BENCH_COMPARE | BENCH_GOOGLE | BENCH_IDLE},
    {"--libraries", "all|mpi|nccl", "what is measured; all: MPI, and NCCL where it can be (all)", TEXT,
     FIELD(libraries), BENCH_COMPARE},
};
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static bool parse_number(const char *text, unsigned long long max, unsigned long long *number)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *number <= max;
}

static bool parse_size(const char *text, size_t *size)
{
    static const char units[] = "KMGT";
    char digits[24];
    size_t length = strlen(text);
    unsigned shift = 0;
    unsigned long long number = 0;
    const char *unit = length > 1 ? strchr(units, text[length - 1] & ~0x20) : NULL;
    if (length == 0 || length >= sizeof(digits))
        return false;
    if (unit && *unit) {
        shift = 10 * (unsigned)(unit - units + 1);
        length--;
    }
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (!parse_number(digits, SIZE_MAX >> shift, &number))
        return false;
    *size = (size_t)number << shift;
    return *size > 0;
}

static bool is_listed(const char *list, const char *text)
{
    size_t length = strlen(text);
    if (!strchr(list, '|'))
        return length > 0;
    for (const char *at = list; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, text, length) == 0 && (at[length] == '|' || at[length] == '\0'))
            return true;
    }
    return false;
}

static bool are_listed(const char *list, const char *text)
{
    char name[64];
    if (strcmp(text, "all") == 0)
        return true;
    for (;;) {
        size_t length = strcspn(text, ",");
        snprintf(name, sizeof(name), "%.*s", (int)length, text);
        if (length == 0 || length >= sizeof(name) || !is_listed(list, name))
            return false;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

static bool is_among(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

bool bench_is_listed(const char *list, const char *name)
{
    return strcmp(list, "all") == 0 || is_among(list, name);
}

bool bench_is_wanted(const struct bench_options *options, const struct bench_coll *coll)
{
    const char *list = options->collectives;
    return is_among(list, coll->name) || is_among(list, coll->further ? "more" : "all");
}

static bool set(struct bench_options *options, const struct option_row *row, const char *text)
{
    char *field = (char *)options + row->offset;
    unsigned long long number = 0;
    switch (row->kind) {
    case SIZE:
        return parse_size(text, (size_t *)(void *)field);
    case COUNT:
        if (!parse_number(text, BENCH_MAX_ITERATIONS, &number) || number == 0)
            return false;
        *(int *)(void *)field = (int)number;
        return true;
    case TYPE:
        return (*(const struct bench_type **)(void *)field = bench_type_find(text)) != NULL;
    case OP:
        return (*(const struct bench_op **)(void *)field = bench_op_find(text)) != NULL;
    case FLAG:
        *(bool *)field = true;
        return true;
    case TEXT:
        *(const char **)(void *)field = text;
        return is_listed(row->value, text);
    case LIST:
        *(const char **)(void *)field = text;
        return are_listed(row->value, text);
    }
    return false;
}

static void show_help(enum bench_program_id program)
{
    printf("Usage: mpirun -n RANKS %s [OPTION]...\nTimes collectives and checks their results.\n\n",
           bench_program);
    for (int i = 0; i < ROW_COUNT; i++) {
        char left[64];
        if (!(rows[i].programs & program))
            continue;
        snprintf(left, sizeof(left), "%s%s%s", rows[i].name, rows[i].value ? "=" : "",
                 rows[i].value ? rows[i].value : "");
        printf("  %-30s %s\n", left, rows[i].help);
    }
    printf("  %-30s %s\n", "--help", "show this");
}

static enum bench_parsed bad(bool speak, const char *argument, const char *why)
{
    if (speak)
        fprintf(stderr, "%s: %s: %s; --help lists the options\n", bench_program, argument, why);
    return BENCH_PARSED_BAD;
}

static enum bench_parsed parse_one(struct bench_options *options, enum bench_program_id program,
                                   const char *argument, const char *next, bool *took_next, bool speak)
{
    size_t length = strcspn(argument, "=");
    const char *text = argument[length] == '=' ? argument + length + 1 : NULL;
    for (int i = 0; i < ROW_COUNT; i++) {
        char why[128];
        if (strlen(rows[i].name) != length || strncmp(rows[i].name, argument, length) != 0 ||
            !(rows[i].programs & program))
            continue;
        if (rows[i].kind == FLAG)
            return text ? bad(speak, argument, "takes no value")
                        : (set(options, &rows[i], NULL), BENCH_PARSED_OK);
        *took_next = !text;
        if (!text)
            text = next;
        if (text && set(options, &rows[i], text))
            return BENCH_PARSED_OK;
        snprintf(why, sizeof(why), "\"%s\" is not %s", text ? text : "",
                 rows[i].kind == SIZE    ? "a size such as 8, 64K or 4M"
                 : rows[i].kind == COUNT ? "a number from 1 to 1048576"
                                         : rows[i].value);
        return bad(speak, argument, why);
    }
    return bad(speak, argument, "no such option");
}

enum bench_parsed bench_options_parse(struct bench_options *options, enum bench_program_id program, int argc,
                                      char **argv, bool speak)
{
    *options = (struct bench_options){.min = 8,
                                      .bytes = 8,
                                      .max = program == BENCH_DEMO ? (size_t)64 << 20 : (size_t)1 << 30,
                                      .coll = bench_coll_row(0),
                                      .type = bench_type_find("float"),
                                      .op = bench_op_find("sum"),
                                      .memory = "auto",
                                      .label = "gpucoll",
                                      .nccl = "auto",
                                      .cublas = "auto",
                                      .libraries = "all",
                                      .collectives = program == BENCH_GOOGLE ? "all" : "allreduce",
                                      .passes = "blocking",
                                      .forms = "all",
                                      .buffers = "all",
                                      .calls = "all",
                                      .check = program == BENCH_DEMO ? "all" : "windows"};
    for (int i = 1; i < argc; i++) {
        bool took_next = false;
        if (strcmp(argv[i], "--help") == 0) {
            if (speak)
                show_help(program);
            return BENCH_PARSED_HELP;
        }
        if (parse_one(options, program, argv[i], argv[i + 1], &took_next, speak) != BENCH_PARSED_OK)
            return BENCH_PARSED_BAD;
        i += took_next;
    }
    if (bench_type_is_derived(options->type) && program != BENCH_COMPARE)
        return bad(speak, "--type", "a derived type, which bench_compare alone measures");
    if (options->min < options->type->size)
        options->min = options->type->size;
    if (options->min > options->max)
        return bad(speak, "--min", "larger than --max");
    if (options->min % options->type->size || options->max % options->type->size)
        return bad(speak, "--min, --max", "not a multiple of the element size");
    if (program == BENCH_IDLE && options->bytes % options->type->size)
        return bad(speak, "--bytes", "not a multiple of the element size");
    if (options->max / options->type->size > INT_MAX)
        return bad(speak, "--max", "more elements than an MPI count can hold");
    if (options->bytes / options->type->size > INT_MAX)
        return bad(speak, "--bytes", "more elements than an MPI count can hold");
    if (options->max > INT_MAX && bench_is_wanted(options, bench_coll_find("alltoallw")))
        return bad(speak, "--max",
                   "alltoallw has displacements in bytes, which an int must hold: at most 1G");
    return BENCH_PARSED_OK;
}

const char *bench_size_text(size_t bytes, char *text)
{
    static const char *const units[] = {"", "K", "M", "G"};
    int unit = 0;
    while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 16, "%zu%s", bytes, units[unit]);
    return text;
}
