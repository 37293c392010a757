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
#include "core/plan/algorithm.h"
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
    static const char before[] = ",code=";
    for (const char *at = strstr(flags, before); at; at = strstr(at, before)) {
        at += strlen(before);
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
    print_row(GPUCOLL_TL_RDMA, gpucoll_tl_rdma_help);
    printf("  %-*s %s (coll_gpucoll_transports)\n", NAME_COLUMNS, "allowed", info->config.transports);
    return gpucoll_tl_all_known(info->config.transports);
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
        printf("  %s: %s by %s\n", gpucoll_algorithm_colls(row), row->name, row->protocol);
        info_print_wrapped(row->help, NAME_COLUMNS + 3, WIDTH);
    }
    return true;
}
