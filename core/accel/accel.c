#include "core/accel/accel.h"
#include <gpucoll_config.h>
#include <stdio.h>
#include <string.h>
#include "core/accel/cuda.h"
#include "core/accel/host.h"

/* In the order that `auto` tries them. The host accelerator only pretends, so it has to be asked for by name.
 */
static const struct {
    const struct gpucoll_accel_ops *ops;
    bool automatic;
} rows[] = {
#ifdef HAVE_CUDA_KERNELS
    {&gpucoll_accel_cuda, true},
#endif
    {&gpucoll_accel_host, false},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

const struct gpucoll_accel_ops *gpucoll_accel_row(int index)
{
    return index >= 0 && index < ROWS ? rows[index].ops : NULL;
}

static void open_first(const struct gpucoll_config *config, const struct gpucoll_log *log,
                       struct gpucoll_accel **accel)
{
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].automatic && rows[i].ops->open(config, log, accel) == GPUCOLL_OK) {
            return;
        }
    }
    *accel = NULL;
}

static const struct gpucoll_accel_ops *find(const char *name)
{
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(name, rows[i].ops->name) == 0) {
            return rows[i].ops;
        }
    }
    return NULL;
}

enum { REASON_BYTES = 256 };

static void keep_line(void *reason, int level, const char *line)
{
    (void)level;
    snprintf(reason, REASON_BYTES, "%s", line);
}

/* The first try has shown it. */
static void ignore_help(void *reason, const char *topic, va_list args)
{
    (void)reason;
    (void)topic;
    (void)args;
}

/* Opens it once more with a log that keeps what it says at set-up: the exact cause. */
static void show_missing(const struct gpucoll_config *config, const struct gpucoll_log *log,
                         const struct gpucoll_accel_ops *ops)
{
    char reason[REASON_BYTES] = "";
    const struct gpucoll_log listener = {
        .verbosity = GPUCOLL_LOG_SETUP, .print = keep_line, .help = ignore_help, .arg = reason};
    struct gpucoll_accel *accel = NULL;
    gpucoll_status status = ops->open(config, &listener, &accel);
    if (status == GPUCOLL_OK) {
        ops->close(accel);
    }
    gpucoll_help(log, "accelerator-missing", ops->name,
                 reason[0] != '\0' ? reason : gpucoll_status_name(status));
}

gpucoll_status gpucoll_accel_open(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                  struct gpucoll_accel **accel)
{
    *accel = NULL;
    const char *wanted = config->accelerator;
    if (strcmp(wanted, "none") == 0) {
        return GPUCOLL_OK;
    }
    if (strcmp(wanted, "auto") == 0) {
        open_first(config, log, accel);
        return GPUCOLL_OK;
    }
    const struct gpucoll_accel_ops *ops = find(wanted);
    if (ops == NULL) {
        gpucoll_help(log, "accelerator-missing", wanted,
                     "gpucoll was built without it (configure --with-cuda)");
    } else if (ops->open(config, log, accel) != GPUCOLL_OK) {
        *accel = NULL;
        show_missing(config, log, ops);
    }
    return GPUCOLL_OK;
}

void gpucoll_accel_close(struct gpucoll_accel *accel)
{
    if (accel) {
        accel->ops->close(accel);
    }
}

size_t gpucoll_scratch_bytes(const struct gpucoll_config *config, const struct gpucoll_accel_ops *ops)
{
    const size_t page = 4096;
    const size_t least = (size_t)1 << 20;
    size_t bytes = config->scratch_bytes == 0 ? ops->scratch_bytes : config->scratch_bytes;
    return (bytes < least ? least : bytes) / page * page;
}
