/*
 * Has what was sent left the process? Over TCP UCX is done with a message when it has copied the end of it, of which a full socket takes a part
 * only. The rest goes when there is room, by whoever turns progress then: if nobody does, the receiver waits as long. A flush of
 * the worker tells, which costs next to nothing where all has gone. Other wires take what they are given.
 *
 * While two ends connect to each other at once, UCX drops one of both connections, and counts what was sent over it until then as under way:
 * so a call among the first of a process may wait for its peer here.
 */
#include "ucx_tl/rdma/net.h"

static const ucp_request_param_t no_options = {.op_attr_mask = 0};

/* With the lock held, as all of these. */
static bool is_flushing(struct gpucoll_net *net, void **flush)
{
    if (*flush != NULL && net->ucx->ucp_request_check_status(*flush) != UCS_INPROGRESS) {
        net->ucx->ucp_request_free(*flush);
        *flush = NULL;
    }
    return *flush != NULL;
}

/* NULL: it has ended. A connection that has failed is told of elsewhere. */
static void *under_way(ucs_status_ptr_t request)
{
    return UCS_PTR_IS_PTR(request) ? request : NULL;
}

/* UCX frees it when it ends. */
static void end(struct gpucoll_net *net, void **flush)
{
    if (is_flushing(net, flush)) {
        net->ucx->ucp_request_free(*flush);
        *flush = NULL;
    }
}

/* What all sockets of the worker have been given: known here alone, and at once where nothing is under way. */
static bool all_have_left(struct gpucoll_net *net)
{
    if (!is_flushing(net, &net->flush) && net->undrained) {
        net->undrained = false;
        net->flush = under_way(net->ucx->ucp_worker_flush_nbx(net->worker, &no_options));
    }
    return net->flush == NULL;
}

/* The peer's progress is to answer that: UCX sends a question behind the messages. (Since 1.12; until then it looks at the socket alone.) */
static bool has_answered(struct gpucoll_net *net, struct gpucoll_net_peer *peer)
{
    if (!is_flushing(net, &peer->flush) && peer->undrained) {
        peer->undrained = false;
        if (peer->endpoint != NULL && !peer->failing) {
            peer->flush = under_way(net->ucx->ucp_ep_flush_nbx(peer->endpoint, &no_options));
        }
    }
    return peer->flush == NULL;
}

/* A peer may be computing: it is asked only while something else is under way, which the worker cannot be told apart from. */
bool gpucoll_rdma_drained(struct gpucoll_net *net, struct gpucoll_net_peer *peer, uint32_t ties)
{
    (void)ties; /* this is one */
    if (!net->tcp) {
        return true;
    }
    pthread_mutex_lock(&net->lock);
    const bool all = all_have_left(net);
    if (all) {
        peer->undrained = false;
    }
    const bool drained = all || has_answered(net, peer);
    pthread_mutex_unlock(&net->lock);
    return drained;
}

bool gpucoll_rdma_all_drained(struct gpucoll_net *net)
{
    if (!net->tcp) {
        return true;
    }
    pthread_mutex_lock(&net->lock);
    const bool drained = all_have_left(net);
    pthread_mutex_unlock(&net->lock);
    return drained;
}

void gpucoll_rdma_end_peer_flush(struct gpucoll_net_peer *peer)
{
    end(peer->net, &peer->flush);
    peer->undrained = false;
}

void gpucoll_rdma_end_flush(struct gpucoll_net *net)
{
    end(net, &net->flush);
}
