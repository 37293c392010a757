/*
 * Taking back a message that has been sent. A long one lies in the sender's memory until its receiver asks for it, and UCX cannot take it
 * back, short of breaking the connection, which would end messages of other teams too. So the receiving process is asked to drop it:
 * a note with the message's tag, on a tag of its own, for which every process has a receive waiting. The note goes the same way as the message and
 * comes behind it.
 */
#include "ucx_tl/rdma/net.h"

static void on_note(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    struct gpucoll_net *net = arg;
    (void)info;
    net->note_request = NULL;
    net->noted = status == UCS_OK;
    net->ucx->ucp_request_free(request);
}

void gpucoll_rdma_expect_note(struct gpucoll_net *net)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = on_note,
        .user_data = net,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    net->noted = false;
    ucs_status_ptr_t request = net->ucx->ucp_tag_recv_nbx(net->worker, &net->note, sizeof net->note,
                                                          GPUCOLL_RDMA_NOTE_TAG, UINT64_MAX, &param);
    if (UCS_PTR_IS_PTR(request) && !net->noted) {
        net->note_request = request;
    }
}

void gpucoll_rdma_expect_no_note(struct gpucoll_net *net)
{
    if (net->note_request != NULL) {
        net->ucx->ucp_request_cancel(net->worker, net->note_request);
    }
}

bool gpucoll_rdma_drop(struct gpucoll_net *net, uint64_t tag, uint64_t mask)
{
    const struct gpucoll_ucx *ucx = net->ucx;
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message = ucx->ucp_tag_probe_nb(net->worker, tag, mask, 1, &info);
    if (message == NULL) {
        return false;
    }
    /* Into no room at all: it ends, here and at its sender. */
    ucs_status_ptr_t request = ucx->ucp_tag_msg_recv_nbx(net->worker, NULL, 0, message, &param);
    if (UCS_PTR_IS_PTR(request)) {
        ucx->ucp_request_free(request); /* UCX keeps it until it is done */
    }
    return true;
}

void gpucoll_rdma_take_notes(struct gpucoll_net *net)
{
    while (net->noted) {
        (void)gpucoll_rdma_drop(net, net->note, UINT64_MAX); /* or it has met its receive */
        gpucoll_rdma_expect_note(net);
    }
}

static void on_note_sent(void *request, ucs_status_t status, void *arg)
{
    struct gpucoll_rdma_transfer *transfer = arg;
    (void)status;
    transfer->noting = false;
    transfer->net->ucx->ucp_request_free(request);
}

void gpucoll_rdma_withdraw(struct gpucoll_rdma_transfer *transfer)
{
    const struct gpucoll_ucx *ucx = transfer->net->ucx;
    const ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = on_note_sent,
        .user_data = transfer,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    if (transfer->peer->endpoint == NULL || transfer->peer->failing) {
        return;
    }
    transfer->noting = true;
    ucs_status_ptr_t request = ucx->ucp_tag_send_nbx(transfer->peer->endpoint, &transfer->tag,
                                                     sizeof transfer->tag, GPUCOLL_RDMA_NOTE_TAG, &param);
    if (!UCS_PTR_IS_PTR(request)) { /* UCX has read it, and does not call back */
        transfer->noting = false;
    }
}
