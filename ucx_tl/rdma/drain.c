/*
 * Has what was sent left the process? Over TCP UCX is done with a message when it has copied the end of it, of which a full socket takes a part
 * only. The rest goes when there is room, by whoever turns progress then: if nobody does, the receiver waits as long. A flush of
 * the worker tells, which costs next to nothing where all has gone. Other wires take what they are given.
 */
#include "ucx_tl/rdma/net.h"

/* With the lock held. */
static bool is_flushing(struct gpucoll_net *net)
{
    if (net->flush != NULL && net->ucx->ucp_request_check_status(net->flush) != UCS_INPROGRESS) {
        net->ucx->ucp_request_free(net->flush);
        net->flush = NULL;
    }
    return net->flush != NULL;
}

bool gpucoll_rdma_drained(struct gpucoll_net *net)
{
    if (!net->tcp) {
        return true;
    }
    pthread_mutex_lock(&net->lock);
    if (!is_flushing(net) && net->undrained) {
        const ucp_request_param_t param = {.op_attr_mask = 0};
        const ucs_status_ptr_t request = net->ucx->ucp_worker_flush_nbx(net->worker, &param);
        net->undrained = false;
        net->flush =
            UCS_PTR_IS_PTR(request) ? request : NULL; /* a connection that has failed is told of elsewhere */
    }
    const bool drained = net->flush == NULL;
    pthread_mutex_unlock(&net->lock);
    return drained;
}

/* Endpoints are closed, which ends it, and UCX frees it when it ends. */
void gpucoll_rdma_end_flush(struct gpucoll_net *net)
{
    if (is_flushing(net)) {
        net->ucx->ucp_request_free(net->flush);
        net->flush = NULL;
    }
}
