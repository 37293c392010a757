/*
 * The topology of this machine.
 */
#include <gpucoll_config.h>
#include "core/topology/build.h"
#include "core/topology/found.h"

#ifdef HAVE_HWLOC
static const char *const unknown = NULL;
#else
static const char *const unknown = "this build of gpucoll is without hwloc (configure --without-hwloc)";
#endif

static bool find(struct gpucoll_topology *found)
{
    struct gpucoll_nvml nvml;
    bool fine = true;
    if (gpucoll_nvml_open(&nvml)) {
        fine = gpucoll_found_gpus(found, &nvml);
        gpucoll_nvml_close(&nvml);
    }
    fine = fine && gpucoll_found_nics(found, "/sys");
    gpucoll_found_limits(found);
    return fine;
}

gpucoll_status gpucoll_topology_discover(const struct gpucoll_log *log, struct gpucoll_topology **topology)
{
    if (unknown != NULL) {
        gpucoll_help(log, "topology-unknown", unknown);
        return GPUCOLL_ERR_UNSUPPORTED;
    }
    struct gpucoll_topology *found = gpucoll_topology_new();
    *topology = found != NULL && find(found) ? gpucoll_found_place(found) : NULL;
    gpucoll_topology_free(found);
    if (*topology == NULL) {
        gpucoll_help(log, "topology-unknown", "hwloc does not load, or memory is short");
        return GPUCOLL_ERR_SYSTEM;
    }
    return GPUCOLL_OK;
}
