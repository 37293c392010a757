/*
 * One tie of the network over UCX: opening and closing, and the table of its functions.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/base/clock.h"
#include "ucx_tl/rdma/devices.h"
#include "ucx_tl/rdma/net.h"

/* How long a network that is closed waits for its last messages to be on their way, and for what else is to end. */
static const double close_seconds = 0.2;

/* What is set for gpucoll's own use of UCX, unless the user has set it by UCX's variables. */
static const struct {
    const char *name;
    const char *value;
} settings[] = {
    /* A peer that has died without closing its connections is found within this. */
    {"KEEPALIVE_INTERVAL", "1s"},
};

/* Of TCP: how much it hands to the system, or takes from it, at once; and messages are not put, which waits for an answer each. As UCX has it
 * otherwise, by 8 KiB, large messages take twice as long (docs/network.md). */
static const struct {
    const char *name;
    const char *value;
    bool segment;
} tcp_settings[] = {
    {"TCP_TX_SEG_SIZE", "1M", true},
    {"TCP_RX_SEG_SIZE", "1M", true},
    {"TCP_PUT_ENABLE", "n", false},
};

static bool set_by_user(const char *name)
{
    char variable[64] = "UCX_";
    strncat(variable, name, sizeof variable - strlen(variable) - 1);
    return getenv(variable) != NULL;
}

static gpucoll_status failed(const struct gpucoll_net *net, const char *what, ucs_status_t status)
{
    gpucoll_help(net->log, "net-open", what, net->ucx->ucs_status_string(status));
    return GPUCOLL_DECLINED;
}

static ucs_status_t set(const struct gpucoll_ucx *ucx, ucp_config_t *config, const char *name,
                        const char *value)
{
    return set_by_user(name) ? UCS_OK : ucx->ucp_config_modify(config, name, value);
}

/* Before UCX 1.17 a setting of a transport had its name without the transport's. */
static ucs_status_t set_tcp(const struct gpucoll_ucx *ucx, ucp_config_t *config)
{
    const bool old = !gpucoll_ucx_since(ucx, 1, 17);
    /* UCX takes no segment to be received that is shorter than those sent: who has set one of them has set both. */
    const bool segments_set = set_by_user("TCP_TX_SEG_SIZE") || set_by_user("TCP_RX_SEG_SIZE");
    ucs_status_t status = UCS_OK;
    for (size_t i = 0; status == UCS_OK && i < sizeof(tcp_settings) / sizeof(tcp_settings[0]); i++) {
        const char *name = tcp_settings[i].name;
        if (!set_by_user(name) && !(tcp_settings[i].segment && segments_set)) {
            status =
                ucx->ucp_config_modify(config, old ? name + strlen("TCP_") : name, tcp_settings[i].value);
        }
    }
    return status;
}

/* A cache of registered memory needs hooks in the functions that unmap memory: not in somebody else's program, unless others in this process use UCX
 * and have arranged themselves with that. But from 1.16 on UCX without its cache does not survive that a connection fails with a long message
 * under way that it has registered; over TCP gpucoll registers these itself (ucx_tl/rdma/memory.h). */
static ucs_status_t set_cache(const struct gpucoll_ucx *ucx, ucp_config_t *config, bool rdma)
{
    ucs_status_t status = UCS_OK;
    const bool off = ucx->alone && !(rdma && gpucoll_ucx_since(ucx, 1, 16));
    if (off) {
        status = set(ucx, config, "RCACHE_ENABLE", "n");
    }
    if (off && rdma && status == UCS_OK) {
        status = set(ucx, config, "IB_REG_METHODS", "direct");
    }
    return status;
}

/* Devices that the user has named to gpucoll count more than those named to UCX. */
static ucs_status_t set_devices(const struct gpucoll_ucx *ucx, ucp_config_t *config,
                                const struct gpucoll_rdma_devices *devices, bool *tcp_alone)
{
    ucs_status_t status = UCS_OK;
    const bool rdma = gpucoll_rdma_chosen(devices, false);
    const bool tcp = gpucoll_rdma_chosen(devices, true);
    *tcp_alone = tcp && !rdma;
    if (devices->list[0] != '\0') {
        status = ucx->ucp_config_modify(config, "NET_DEVICES", devices->list);
    }
    if (status == UCS_OK) {
        status = set_cache(ucx, config, rdma);
    }
    /* UCX warns of settings of transports that it does not open, as the user may have it. */
    if (status == UCS_OK && tcp && !set_by_user("TLS")) {
        status = set_tcp(ucx, config);
    }
    return status;
}

/* What passes here is for other hosts, but for what goes along all ranks in their order (core/cluster/cluster_scan.c), unless a host has too many ranks for
 * one: then shared memory carries what passes between these, by UCX's transport posix, which unlinks a file as soon as it is open, and which UCX takes
 * for endpoints that tell of a failed peer only if told to. Hosts that are pretended are to behave alike, not to map each other's GPUs. */
static ucs_status_t set_transports(const struct gpucoll_ucx *ucx, ucp_config_t *config,
                                   const struct gpucoll_rdma_devices *devices, bool crowded)
{
    /* UCX warns of those that it does not have. */
    if (set_by_user("TLS")) {
        return UCS_OK;
    }
    if (!crowded) {
        return ucx->ucp_config_modify(config, "TLS", devices->cuda_ipc ? "^sm,cuda_ipc" : "^sm");
    }
    ucs_status_t status =
        ucx->ucp_config_modify(config, "TLS", devices->cuda_ipc ? "^sysv,cuda_ipc" : "^sysv");
    return status == UCS_OK ? set(ucx, config, "MM_ERROR_HANDLING", "y") : status;
}

static ucs_status_t make_context(struct gpucoll_net *net, const struct gpucoll_rdma_devices *devices,
                                 bool crowded)
{
    const struct gpucoll_ucx *ucx = net->ucx;
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_TAG,
        .name = "gpucoll",
    };
    ucp_config_t *config = NULL;
    ucs_status_t status = ucx->ucp_config_read(NULL, NULL, &config);
    for (size_t i = 0; status == UCS_OK && i < sizeof(settings) / sizeof(settings[0]); i++) {
        status = set(ucx, config, settings[i].name, settings[i].value);
    }
    if (status == UCS_OK) {
        status = set_transports(ucx, config, devices, crowded);
    }
    if (status == UCS_OK) {
        status = set_devices(ucx, config, devices, &net->tcp);
    }
    if (status == UCS_OK) {
        status = ucx->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &net->context);
    }
    if (config != NULL) {
        ucx->ucp_config_release(config);
    }
    return status;
}

static ucs_status_t make_worker(struct gpucoll_net *net)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    return net->ucx->ucp_worker_create(net->context, &params, &net->worker);
}

static gpucoll_status make_address(struct gpucoll_net *net)
{
    struct gpucoll_rdma_card card = {.pid = (uint32_t)getpid()};
    ucp_address_t *address = NULL;
    size_t bytes = 0;
    ucs_status_t status = net->ucx->ucp_worker_get_address(net->worker, &address, &bytes);
    if (status != UCS_OK) {
        return failed(net, "ucp_worker_get_address", status);
    }
    bool fits = bytes <= GPUCOLL_NET_ADDRESS_BYTES - sizeof card;
    if (fits) {
        gethostname(card.host, sizeof card.host - 1);
        memcpy(net->address.data, &card, sizeof card);
        memcpy(net->address.data + sizeof card, address, bytes);
        net->address.bytes = (uint32_t)(sizeof card + bytes);
    } else {
        gpucoll_help(net->log, "net-address-long", bytes, GPUCOLL_NET_ADDRESS_BYTES - sizeof card);
    }
    net->ucx->ucp_worker_release_address(net->worker, address);
    return fits ? GPUCOLL_OK : GPUCOLL_DECLINED;
}

static gpucoll_status set_up(struct gpucoll_net *net, const struct gpucoll_rdma_devices *devices,
                             bool crowded)
{
    ucs_status_t status = make_context(net, devices, crowded);
    if (status != UCS_OK) {
        return failed(net, "ucp_init", status);
    }
    status = make_worker(net);
    if (status != UCS_OK) {
        return failed(net, "ucp_worker_create", status);
    }
    gpucoll_rdma_expect_note(net);
    return make_address(net);
}

/* Messages that nobody wanted, of calls that were given up: UCX would warn of them when its worker goes. */
static void drop_unexpected(struct gpucoll_net *net)
{
    gpucoll_rdma_expect_no_note(net);
    do {
        net->ucx->ucp_worker_progress(net->worker);
    } while (gpucoll_rdma_drop(net, 0, 0));
}

/* Lets what has been sent go its way. */
static void flush(struct gpucoll_net *net)
{
    const struct gpucoll_ucx *ucx = net->ucx;
    const ucp_request_param_t param = {.op_attr_mask = 0};
    const uint64_t start = gpucoll_now_ns();
    for (struct gpucoll_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
        ucs_status_ptr_t request = NULL;
        if (peer->endpoint != NULL && !peer->failing) {
            request = ucx->ucp_ep_flush_nbx(peer->endpoint, &param);
        }
        if (!UCS_PTR_IS_PTR(request)) {
            continue;
        }
        while (ucx->ucp_request_check_status(request) == UCS_INPROGRESS &&
               (double)(gpucoll_now_ns() - start) < close_seconds * 1e9) {
            ucx->ucp_worker_progress(net->worker);
        }
        ucx->ucp_request_free(request);
    }
}

static void close_peers(struct gpucoll_net *net)
{
    flush(net);
    while (net->peers != NULL) {
        struct gpucoll_net_peer *peer = net->peers;
        net->peers = peer->next;
        gpucoll_rdma_close_endpoint(peer);
        free(peer);
    }
    net->ucx->ucp_worker_progress(net->worker);
}

static void close_net(struct gpucoll_net *net)
{
    if (net == NULL) {
        return;
    }
    if (net->worker != NULL) {
        pthread_mutex_lock(&net->lock);
        gpucoll_rdma_cancel_all(net);
        drop_unexpected(net);
        close_peers(net);
        gpucoll_rdma_end_flush(net);
        pthread_mutex_unlock(&net->lock);
        net->ucx->ucp_worker_destroy(net->worker);
        gpucoll_rdma_free_transfers(net);
        gpucoll_rdma_free_memory(net);
    }
    if (net->context != NULL) {
        net->ucx->ucp_cleanup(net->context);
    }
    pthread_mutex_destroy(&net->lock);
    free(net);
}

static gpucoll_status open_net(const struct gpucoll_config *config, const struct gpucoll_log *log,
                               const struct gpucoll_net_place *place, struct gpucoll_net **out)
{
    const struct gpucoll_ucx *ucx = gpucoll_ucx(log);
    if (ucx == NULL) {
        return GPUCOLL_DECLINED;
    }
    struct gpucoll_net *net = calloc(1, sizeof *net);
    if (net == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    net->ucx = ucx;
    net->log = log;
    net->timeout = config->timeout;
    pthread_mutex_init(&net->lock, NULL);
    struct gpucoll_rdma_devices devices;
    gpucoll_status status = gpucoll_rdma_devices_open(ucx, config, log, place, &devices);
    if (status == GPUCOLL_OK) {
        status = set_up(net, &devices, place->crowded);
    }
    if (status == GPUCOLL_OK) {
        net->memory = gpucoll_rdma_memory_choose(ucx, net->context, config, &devices);
        gpucoll_rdma_memory_say(&net->memory, config, &devices, log);
    }
    gpucoll_rdma_devices_close(&devices);
    if (status != GPUCOLL_OK) {
        close_net(net);
        return status;
    }
    *out = net;
    return GPUCOLL_OK;
}

static void get_address(const struct gpucoll_net *net, struct gpucoll_net_address *address)
{
    *address = net->address;
}

/* A thread that finds another one at it leaves it to that. */
static bool progress(struct gpucoll_net *net)
{
    if (pthread_mutex_trylock(&net->lock) != 0) {
        return false;
    }
    bool moved = gpucoll_rdma_progress(net);
    pthread_mutex_unlock(&net->lock);
    return moved;
}

const struct gpucoll_net_ops gpucoll_net_tie = {
    .name = "ucx, one tie",
    .open = open_net,
    .close = close_net,
    .address = get_address,
    .connect = gpucoll_rdma_connect,
    .disconnect = gpucoll_rdma_disconnect,
    .reach = gpucoll_rdma_reach,
    .forget = gpucoll_rdma_forget,
    .send = gpucoll_rdma_send,
    .receive = gpucoll_rdma_receive,
    .receive_up_to = gpucoll_rdma_receive_up_to,
    .test = gpucoll_rdma_test,
    .cancel = gpucoll_rdma_cancel,
    .begin_cancel = gpucoll_rdma_begin_cancel,
    .progress = progress,
    .drained = gpucoll_rdma_drained,
    .lost = gpucoll_rdma_lost,
    .gone = gpucoll_rdma_gone,
};
