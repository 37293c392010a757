#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "core/topology/topology.h"
#include "tools/gpucoll_info.h"

bool info_topology(struct info *info)
{
    struct gpucoll_topology *topology = NULL;
    if (gpucoll_topology_open(&info->config, &info->log, &topology) != GPUCOLL_OK) {
        printf("  not known: see the message\n");
        return false;
    }
    if (info->config.topology_file[0] != '\0') {
        printf("  of the file %s\n", info->config.topology_file);
    }
    gpucoll_topology_print(topology, stdout);
    gpucoll_topology_free(topology);
    return true;
}

bool info_topology_xml(struct info *info, const char *path)
{
    struct gpucoll_topology *topology = NULL;
    bool standard = strcmp(path, "-") == 0;
    if (gpucoll_topology_open(&info->config, &info->log, &topology) != GPUCOLL_OK) {
        return false;
    }
    FILE *file = standard ? stdout : fopen(path, "we");
    bool fine = file != NULL;
    if (fine) {
        gpucoll_topology_write(topology, file);
        fine = ferror(file) == 0;
        fine = (standard ? fflush(file) : fclose(file)) == 0 && fine;
    }
    if (!fine) {
        fprintf(stderr, "gpucoll_info: --topology-xml: %s: %s\n", path, strerror(errno));
    }
    gpucoll_topology_free(topology);
    return fine;
}

bool info_machine_links(struct gpucoll_topology_links *links)
{
    struct gpucoll_topology *topology = NULL;
    const bool known = gpucoll_topology_discover(&gpucoll_log_silent, &topology) == GPUCOLL_OK &&
                       gpucoll_topology_links(topology, UINT32_MAX, links);
    gpucoll_topology_free(topology);
    return known;
}

/* Ranks take all GPUs host by host, and begin anew when these are used up. */
static uint32_t ranks_of_first(uint32_t nranks, uint32_t gpus_of_first, uint32_t gpus)
{
    const uint32_t rest = gpus > 0 ? nranks % gpus : 0;
    return gpus > 0 ? nranks / gpus * gpus_of_first + (rest < gpus_of_first ? rest : gpus_of_first) : 0;
}

bool info_topology_links(const struct info *info, uint32_t *nranks, uint32_t *local,
                         struct gpucoll_topology_links *links, bool *fine)
{
    const char *path = info->config.topology_file;
    struct gpucoll_topology *topology = NULL;
    *fine = true;
    if (path[0] == '\0') {
        return false;
    }
    *fine = gpucoll_topology_read(path, &info->log, &topology) == GPUCOLL_OK;
    if (!*fine) {
        return false;
    }
    int first = gpucoll_topology_host(topology, 0);
    uint32_t gpus = 0;
    while (gpucoll_topology_gpu(topology, first, (int)gpus) >= 0) {
        gpus++;
    }
    if (*nranks == 0) {
        *nranks = gpus > 2 ? gpus : 2;
    }
    *local = ranks_of_first(*nranks, gpus, (uint32_t)topology->gpu_count);
    *fine = gpucoll_topology_links(topology, *nranks, links);
    if (!*fine) {
        fprintf(stderr, "gpucoll_info: %s: the machine has no GPU\n", path);
    }
    gpucoll_topology_free(topology);
    return *fine;
}
