#include "core/team_hosts.h"

#include <string.h>

static bool share_memory(const struct gpucoll_process_id *a, const struct gpucoll_process_id *b)
{
    return gpucoll_process_same_host(a, b) && a->pid_space == b->pid_space;
}

/* Numbers the hosts by their lowest rank. `*apart`: some are of one machine. */
static uint32_t real_hosts(const struct gpucoll_process_id *process, uint32_t size,
                           struct gpucoll_team_host *hosts, uint32_t *host_of, bool *apart)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < size; i++) {
        uint32_t host = 0;
        while (host < count && !share_memory(&process[i], &process[hosts[host].lowest])) {
            *apart |= gpucoll_process_same_host(&process[i], &process[hosts[host].lowest]);
            host++;
        }
        if (host == count) {
            hosts[count++].lowest = i;
        }
        host_of[i] = host;
    }
    return count;
}

/* One machine's ranks as those of several hosts, or all ranks as those of as many. */
static uint32_t pretended_hosts(uint32_t wanted, uint32_t size, uint32_t *host_of)
{
    const uint32_t hosts = wanted < size ? wanted : size;
    for (uint32_t i = 0; i < size; i++) {
        host_of[i] = (uint32_t)((uint64_t)i * hosts / size);
    }
    return hosts;
}

/* Divides those that have more ranks than a kernel takes. */
static uint32_t divide_hosts(uint32_t size, uint32_t count, struct gpucoll_team_host *hosts,
                             uint32_t *host_of)
{
    memset(hosts, 0, count * sizeof *hosts);
    for (uint32_t i = 0; i < size; i++) {
        hosts[host_of[i]].ranks++;
    }
    uint32_t divided = 0;
    for (uint32_t i = 0; i < size; i++) {
        struct gpucoll_team_host *host = &hosts[host_of[i]];
        const uint32_t parts = (host->ranks + GPUCOLL_MAX_LOCAL - 1) / GPUCOLL_MAX_LOCAL;
        if ((uint64_t)host->seen++ * parts / host->ranks == host->parts) {
            host->parts++;
            host->part = divided++;
        }
        host_of[i] = host->part;
    }
    return divided;
}

uint32_t gpucoll_team_find_hosts(const struct gpucoll_team *team, const struct gpucoll_process_id *process,
                                 struct gpucoll_team_host *hosts, uint32_t *host_of,
                                 enum gpucoll_divided *divided)
{
    const struct gpucoll_config *config = team->context->config;
    const uint32_t wanted = (uint32_t)config->hosts;
    bool apart = false;
    uint32_t count = real_hosts(process, team->size, hosts, host_of, &apart);
    if (gpucoll_tl_only_spans(config->transports)) {
        count = pretended_hosts(team->size, team->size, host_of);
        apart = false;
    } else if (count == 1 && wanted > 1) {
        count = pretended_hosts(wanted, team->size, host_of);
    }
    const uint32_t parts = divide_hosts(team->size, count, hosts, host_of);
    if (parts > 1 && !gpucoll_tl_spans(config->transports)) {
        gpucoll_log(team->context->log, GPUCOLL_LOG_SETUP,
                    "%s: not native: its ranks are on %u hosts, and coll_gpucoll_transports (%s) leaves "
                    "out " GPUCOLL_TL_RDMA,
                    team->name, parts, config->transports);
        return 0;
    }
    *divided = parts > count ? GPUCOLL_DIVIDED_CROWDED : apart ? GPUCOLL_DIVIDED_APART : GPUCOLL_NOT_DIVIDED;
    return parts;
}
