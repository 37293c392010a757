#include "test/unit/gpu_memory.h"

#include "core/accel/accel.h"
#include "ucx_tl/rdma/net.h"

static const struct gpucoll_ucx *usual;
static struct gpucoll_ucx watching;
static struct test_gpu_count count;
static struct gpucoll_net *watched;
static bool refused;
static char handle; /* its address */

static struct gpucoll_entry enter(struct gpucoll_device *device)
{
    (void)device;
    count.entered++;
    return (struct gpucoll_entry){.pushed = true};
}

static void leave(struct gpucoll_device *device, struct gpucoll_entry entry)
{
    (void)device;
    count.entered -= entry.pushed;
}

struct gpucoll_device *test_gpu(void)
{
    static const struct gpucoll_accel_ops ops = {
        .name = "test", .device_enter = enter, .device_leave = leave};
    static struct gpucoll_accel accel = {.ops = &ops};
    static struct gpucoll_device device = {.accel = &accel};
    return &device;
}

/* What UCX is to hear instead: it cannot do with such memory what it is asked to here. */
static ucp_request_param_t look_at(const ucp_request_param_t *param)
{
    ucp_request_param_t host = *param;
    if (param->memory_type == UCS_MEMORY_TYPE_CUDA) {
        const bool has = (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) != 0;
        count.messages++;
        count.with_handle += has && param->memh == (ucp_mem_h)(void *)&handle;
        count.outside += count.entered == 0;
        host.memory_type = UCS_MEMORY_TYPE_HOST;
        host.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_MEMH;
    }
    return host;
}

static ucs_status_ptr_t send_message(ucp_ep_h endpoint, const void *data, size_t bytes, ucp_tag_t tag,
                                     const ucp_request_param_t *param)
{
    const ucp_request_param_t host = look_at(param);
    return usual->ucp_tag_send_nbx(endpoint, data, bytes, tag, &host);
}

static ucs_status_ptr_t receive_message(ucp_worker_h worker, void *data, size_t bytes, ucp_tag_t tag,
                                        ucp_tag_t mask, const ucp_request_param_t *param)
{
    const ucp_request_param_t host = look_at(param);
    return usual->ucp_tag_recv_nbx(worker, data, bytes, tag, mask, &host);
}

static unsigned progress(ucp_worker_h worker)
{
    count.outside += watched->device_messages > 0 && watched->worker == worker && count.entered == 0;
    return usual->ucp_worker_progress(worker);
}

static ucs_status_t map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memory)
{
    (void)context;
    count.outside += count.entered == 0;
    if (refused || params->memory_type != UCS_MEMORY_TYPE_CUDA) {
        return UCS_ERR_INVALID_ADDR;
    }
    count.registered++;
    *memory = (ucp_mem_h)(void *)&handle;
    return UCS_OK;
}

static ucs_status_t unmap(ucp_context_h context, ucp_mem_h memory)
{
    (void)context;
    count.registered -= memory == (ucp_mem_h)(void *)&handle;
    return UCS_OK;
}

void test_take_gpu_memory(struct gpucoll_net *ties, bool registers, bool only_so)
{
    struct gpucoll_net *net = gpucoll_rdma_first_tie(ties);
    usual = net->ucx != &watching ? net->ucx : usual;
    watched = net;
    watching = *usual;
    watching.ucp_tag_send_nbx = send_message;
    watching.ucp_tag_recv_nbx = receive_message;
    watching.ucp_worker_progress = progress;
    watching.ucp_mem_map = map;
    watching.ucp_mem_unmap = unmap;
    net->ucx = &watching;
    net->memory = (struct gpucoll_rdma_memory){.cuda = true, .registers = registers, .only_so = only_so};
    count = (struct test_gpu_count){0};
    refused = false;
}

void test_refuse_gpu_memory(void)
{
    refused = true;
}

struct test_gpu_count test_gpu_count(void)
{
    return count;
}
