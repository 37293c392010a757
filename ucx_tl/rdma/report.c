#include "ucx_tl/rdma/report.h"
#include "ucx_tl/rdma/memory.h"

enum { COLUMNS = 14 };

static void print_row(FILE *file, const char *name, const char *text)
{
    fprintf(file, "  %-*s %s\n", COLUMNS, name, text);
}

/* Asked of UCX, not guessed: it depends on how it was built, and on the driver's modules. */
static void print_memory(const struct gpucoll_ucx *ucx, const struct gpucoll_config *gpucoll_config,
                         const struct gpucoll_rdma_devices *devices, FILE *file)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_config_t *config = NULL;
    ucp_context_h context = NULL;
    const char *text = "not known";
    /* Without the cache of registered memory, as rdma.c: its hooks would stay in the C library. */
    if (ucx->ucp_config_read(NULL, NULL, &config) == UCS_OK &&
        ucx->ucp_config_modify(config, "RCACHE_ENABLE", "n") == UCS_OK &&
        ucx->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context) == UCS_OK) {
        text = gpucoll_rdma_memory_choose(ucx, context, gpucoll_config, devices).text;
        ucx->ucp_cleanup(context);
    }
    if (config != NULL) {
        ucx->ucp_config_release(config);
    }
    fprintf(file, "  %-*s %s (coll_gpucoll_net_gpu_memory = %s)\n", COLUMNS, "CUDA memory", text,
            gpucoll_config->net_gpu_memory);
}

bool gpucoll_net_report(const struct gpucoll_config *config, const struct gpucoll_log *log, FILE *file)
{
    const struct gpucoll_ucx *ucx = gpucoll_ucx(log);
    struct gpucoll_rdma_devices devices;
    char text[256];
    if (ucx == NULL) {
        print_row(file, "UCX", "not found here: communicators of several hosts go to the other components");
        return true;
    }
    print_row(file, "UCX", ucx->ucp_get_version_string());
    const struct gpucoll_net_place first = {.local_rank = 0};
    bool fine = gpucoll_rdma_devices_open(ucx, config, log, &first, &devices) == GPUCOLL_OK;
    for (int i = 0; i < devices.count; i++) {
        gpucoll_rdma_device_text(&devices, i, text, sizeof text);
        fprintf(file, "  %-*s %s%s\n", COLUMNS, devices.device[i].name, text,
                devices.device[i].chosen && fine ? " (chosen)" : "");
    }
    if (devices.gpu >= 0) {
        fprintf(file, "  %-*s GPU %d\n", COLUMNS, "near to", devices.topology->objects[devices.gpu].id);
    }
    fprintf(file, "  %-*s %s (coll_gpucoll_net_devices)\n", COLUMNS, "wanted", config->net_devices);
    print_memory(ucx, config, &devices, file);
    gpucoll_rdma_devices_close(&devices);
    return fine;
}
