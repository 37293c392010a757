/*
 * The sections that come from the build and from the engine's tables.
 */
#include <gpucoll_config.h>
#include <stdio.h>
#include <string.h>
#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif
#ifdef HAVE_UCX
#include <ucp/api/ucp_version.h>
#endif
#include "core/algorithm.h"
#include "core/base/forms.h"
#include "tools/gpucoll_info.h"
#include "ucx_tl/rdma/report.h"
#include "ucx_tl/tl.h"

enum { NAME_COLUMNS = 14, WIDTH = 110 };

static void print_row(const char *name, const char *text)
{
    printf("  %-*s %s\n", NAME_COLUMNS, name, text);
}

/* "-gencode=arch=compute_70,code=sm_70 ..." as nvcc was given it: the code names alone. */
static void print_architectures(const char *flags)
{
    printf("  %-*s", NAME_COLUMNS, "CUDA kernels");
#ifdef HAVE_CUDA_KERNELS
    for (const char *at = strstr(flags, "code="); at; at = strstr(at, "code=")) {
        at += strlen("code=");
        size_t length = strcspn(at, " ,");
        bool portable = strncmp(at, "compute_", strlen("compute_")) == 0;
        printf(" %.*s%s", (int)length, at, portable ? " (PTX: newer GPUs)" : "");
        at += length;
    }
    printf("\n");
#else
    (void)flags;
    printf(" none: this build knows the host accelerator only (configure --with-cuda)\n");
#endif
}

bool info_build(struct info *info)
{
    char text[64] = "";
    (void)info;
    print_row("gpucoll", PACKAGE_VERSION);
    print_row("Open MPI",
              INFO_OMPI_VERSION[0] ? INFO_OMPI_VERSION : "none: the engine alone (configure --disable-mpi)");
    print_architectures(INFO_GENCODE);
#ifdef HAVE_HWLOC
    unsigned version = hwloc_get_api_version();
    snprintf(text, sizeof(text), "%u.%u", version >> 16, version >> 8 & 0xff);
    print_row("hwloc", text);
#else
    print_row("hwloc", "none: topology from files only (configure --with-hwloc)");
#endif
#ifdef HAVE_UCX
    snprintf(text, sizeof(text), "%d.%d (API)", UCP_API_MAJOR, UCP_API_MINOR);
    print_row("UCX", text);
#else
    print_row("UCX", "none: one host only (configure --with-ucx)");
#endif
    return true;
}

/* What an accelerator says while it opens, below its row. */
static void print_remark(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    printf("  %-*s %s\n", NAME_COLUMNS, "", line);
}

bool info_accelerators(struct info *info)
{
    const struct gpucoll_accel_ops *ops;
    struct gpucoll_log log = info->log;
    struct gpucoll_accel *accel = NULL;
    log.verbosity = GPUCOLL_LOG_SETUP;
    log.print = print_remark;
    for (int i = 0; (ops = gpucoll_accel_row(i)) != NULL; i++) {
        print_row(ops->name, ops->help);
        gpucoll_status status = ops->open(&info->config, &log, &accel);
        printf("  %-*s %s\n", NAME_COLUMNS, "", status == GPUCOLL_OK ? "found" : gpucoll_status_name(status));
        if (status == GPUCOLL_OK) {
            ops->close(accel);
        }
    }
    if (gpucoll_accel_open(&info->config, &info->log, &accel) != GPUCOLL_OK) {
        return false;
    }
    printf("  %-*s %s (coll_gpucoll_accelerator = %s)\n", NAME_COLUMNS, "chosen",
           accel ? accel->ops->name : "none: every call goes to the other components",
           info->config.accelerator);
    gpucoll_accel_close(accel);
    return true;
}

bool info_transports(struct info *info)
{
    const struct gpucoll_tl_ops *tl;
    for (int i = 0; (tl = gpucoll_tl_row(i)) != NULL; i++) {
        print_row(tl->name, tl->help);
    }
    printf("  %-*s %s (coll_gpucoll_transports)\n", NAME_COLUMNS, "allowed", info->config.transports);
    return true;
}

bool info_network(struct info *info)
{
    return gpucoll_net_report(&info->config, &info->log, stdout);
}

bool info_algorithms(struct info *info)
{
    const struct gpucoll_algorithm *row;
    (void)info;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        printf("  %s: %s\n", gpucoll_algorithm_colls(row), row->name);
        info_print_wrapped(row->help, NAME_COLUMNS + 3, WIDTH);
    }
    return true;
}

/* How the engine runs a collective: its rows in the table of algorithms. */
static void print_ways(const char *collective)
{
    const struct gpucoll_algorithm *row;
    const char *between = "";
    int coll = 0;
    while (coll < GPUCOLL_COLL_COUNT && strcmp(gpucoll_coll_name((enum gpucoll_coll)coll), collective) != 0) {
        coll++;
    }
    for (int i = 0; coll < GPUCOLL_COLL_COUNT && (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (gpucoll_algorithm_runs(row, (enum gpucoll_coll)coll)) {
            printf("%s%s (%s)", between, row->name, row->protocol);
            between = ", ";
        }
    }
}

#define FORMS_ROW(name, blocking, nonblocking, persistent)                                                   \
    {#name, {GPUCOLL_RUNS_##blocking, GPUCOLL_RUNS_##nonblocking, GPUCOLL_RUNS_##persistent}},

static const struct {
    const char *collective;
    enum gpucoll_runs forms[3];
} collectives[] = {GPUCOLL_COLLECTIVE_FORMS(FORMS_ROW)};

void info_collectives_markdown(void)
{
    static const char *const words[] = {
        [GPUCOLL_RUNS_NONE] = "n/a",
        [GPUCOLL_RUNS_NEXT] = "next",
        [GPUCOLL_RUNS_STAGED] = "staged",
        [GPUCOLL_RUNS_NATIVE] = "native",
    };
    printf("# Collectives\n\n"
           "Written by `gpucoll_info --collectives`. *Native*: run by kernels on the GPUs where every rank "
           "brings device memory of\n"
           "any datatypes, packed there where they are not contiguous (reductions: a predefined operator on "
           "a predefined "
           "type); otherwise, and in "
           "the forms that say\n"
           "*staged*, device buffers are copied to host memory and the next component of Open MPI does the "
           "work. Collectives of\n"
           "intercommunicators are staged. *Next*: has no buffers and stays with the next component.\n\n"
           "What is native on one host is so on several; there datatypes have to be contiguous, and under "
           "`coll_gpucoll_deterministic`\n"
           "reductions but scan and exscan are staged.\n\n"
           "Native nonblocking and persistent collectives move on while the application computes "
           "(`coll_gpucoll_progress_thread`);\n"
           "`coll_gpucoll_nonblocking` stages them all.\n"
           "Persistent ones can be started in another order on each rank.\n\n"
           "reduce_local has no communicator: it is native where both buffers are memory of one GPU, and "
           "waits for no other rank.\n\n"
           "| collective | blocking | nonblocking | persistent | algorithms (protocols) "
           "|\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
        const enum gpucoll_runs *forms = collectives[i].forms;
        printf("| %s | %s | %s | %s | ", collectives[i].collective, words[forms[0]], words[forms[1]],
               words[forms[2]]);
        print_ways(collectives[i].collective);
        printf(" |\n");
    }
}
