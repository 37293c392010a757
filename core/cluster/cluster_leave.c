/*
 * What this rank has told in spans in which it waits for nobody: it is through with them, or has given them up, or has told all it had to tell ahead.
 * Messages that are still on their way then are the context's business: their team may be freed before they arrive, and whoever turns the network
 * sees to them. One that fails goes once more, as its receiver may live: a connection is closed, too, to be rid of a message of another team.
 * Fails that as well, the others are told to give the call up. Only before the network is closed are messages ended by force: that may close a
 * connection, which other teams use, too.
 *
 * Who looks at a message that has failed says so, which may turn MPI's progress, and that comes back here: so the lock is recursive, spans are added
 * behind those that are there, and only the outermost of a thread removes some.
 */
#include "core/cluster/cluster.h"

#include <stdlib.h>
#include "core/context.h"

void gpucoll_span_leave(struct gpucoll_span *span, bool ended)
{
    struct gpucoll_context *context = span->cluster->context;
    pthread_mutex_lock(&context->leaving_lock);
    __atomic_fetch_add(&span->cluster->leaving, 1, __ATOMIC_RELAXED);
    span->leaves = true;
    span->ended = ended;
    span->leaving = NULL;
    __atomic_store_n(context->leaving_end, span, __ATOMIC_RELAXED);
    context->leaving_end = &span->leaving;
    pthread_mutex_unlock(&context->leaving_lock);
}

bool gpucoll_span_leaves(struct gpucoll_span *span)
{
    struct gpucoll_context *context = span->cluster->context;
    pthread_mutex_lock(&context->leaving_lock);
    const bool leaves = span->leaves;
    pthread_mutex_unlock(&context->leaving_lock);
    return leaves;
}

bool gpucoll_span_hand_over(struct gpucoll_span *span)
{
    struct gpucoll_context *context = span->cluster->context;
    pthread_mutex_lock(&context->leaving_lock);
    const bool leaves = span->leaves;
    span->ended = true;
    if (leaves && span->round < span->cluster->rounds) {
        gpucoll_span_take_back(span);
    }
    pthread_mutex_unlock(&context->leaving_lock);
    return leaves;
}

/* With the lock held: it has left. Then its cluster may be freed, so nothing comes after this. */
static void drop(struct gpucoll_context *context, struct gpucoll_span **link)
{
    struct gpucoll_span *span = *link;
    struct gpucoll_cluster *cluster = span->cluster;
    __atomic_store_n(link, span->leaving, __ATOMIC_RELAXED);
    if (context->leaving_end == &span->leaving) {
        context->leaving_end = link;
    }
    span->leaves = false;
    if (span->ended) {
        free(span);
    }
    __atomic_fetch_sub(&cluster->leaving, 1, __ATOMIC_RELEASE);
}

void gpucoll_spans_settle(struct gpucoll_context *context)
{
    if (__atomic_load_n(&context->leaving, __ATOMIC_RELAXED) == NULL ||
        pthread_mutex_trylock(&context->leaving_lock) != 0) {
        return; /* another thread is at it */
    }
    const bool outermost = !context->sees_off;
    context->sees_off = true;
    for (struct gpucoll_span **link = &context->leaving; outermost && *link != NULL;) {
        if (gpucoll_span_see_off(*link)) {
            drop(context, link);
        } else {
            link = &(*link)->leaving;
        }
    }
    context->sees_off = !outermost;
    pthread_mutex_unlock(&context->leaving_lock);
}

void gpucoll_spans_end(struct gpucoll_context *context)
{
    pthread_mutex_lock(&context->leaving_lock);
    for (struct gpucoll_span *span = context->leaving; span != NULL; span = span->leaving) {
        gpucoll_span_take_back(span);
    }
    while (context->leaving != NULL) {
        gpucoll_span_tear(context->leaving);
        drop(context, &context->leaving);
    }
    pthread_mutex_unlock(&context->leaving_lock);
}
