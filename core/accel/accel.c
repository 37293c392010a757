#include "core/accel/accel.h"
#include <gpucoll_config.h>
#include <string.h>
#include "core/accel/cuda.h"
#include "core/accel/host.h"

/* In the order that `auto` tries them. The host accelerator only pretends, so it has to be asked for by name. */
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
    gpucoll_status status = GPUCOLL_ERR_UNSUPPORTED; /* what a build without it says as well */
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(wanted, rows[i].ops->name) == 0) {
            status = rows[i].ops->open(config, log, accel);
        }
    }
    if (status != GPUCOLL_OK) {
        *accel = NULL;
        gpucoll_help(log, "accelerator-missing", wanted, gpucoll_status_name(status));
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
