/*
 * Spans that this rank is through with, or has given up, while messages of its own are still on their way. They are the context's: nobody waits for
 * them, their team may be freed before they end, and whoever turns the network sees to them. Only before the network is closed are they ended by
 * force: that may close a connection, which other teams use, too.
 */
#include "core/cluster/cluster.h"

#include <stdlib.h>
#include "core/context.h"

void gpucoll_span_leave(struct gpucoll_span *span)
{
    struct gpucoll_context *context = span->cluster->context;
    pthread_mutex_lock(&context->leaving_lock);
    __atomic_fetch_add(&span->cluster->leaving, 1, __ATOMIC_RELAXED);
    span->next = context->leaving;
    __atomic_store_n(&context->leaving, span, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&context->leaving_lock);
}

/* With the lock held. Then its cluster may be freed, so this is the last that is done with that. */
static void count_out(struct gpucoll_cluster *cluster)
{
    __atomic_fetch_sub(&cluster->leaving, 1, __ATOMIC_RELEASE);
}

void gpucoll_spans_settle(struct gpucoll_context *context)
{
    if (__atomic_load_n(&context->leaving, __ATOMIC_RELAXED) == NULL ||
        pthread_mutex_trylock(&context->leaving_lock) != 0) {
        return; /* another thread is at it */
    }
    for (struct gpucoll_span **link = &context->leaving; *link != NULL;) {
        struct gpucoll_span *span = *link;
        if (gpucoll_span_is_sent(span)) {
            struct gpucoll_cluster *cluster = span->cluster;
            __atomic_store_n(link, span->next, __ATOMIC_RELAXED);
            free(span);
            count_out(cluster);
        } else {
            link = &span->next;
        }
    }
    pthread_mutex_unlock(&context->leaving_lock);
}

void gpucoll_spans_end(struct gpucoll_context *context)
{
    pthread_mutex_lock(&context->leaving_lock);
    for (struct gpucoll_span *span = context->leaving; span != NULL; span = span->next) {
        gpucoll_span_begin_end(span);
    }
    while (context->leaving != NULL) {
        struct gpucoll_span *span = context->leaving;
        struct gpucoll_cluster *cluster = span->cluster;
        __atomic_store_n(&context->leaving, span->next, __ATOMIC_RELAXED);
        gpucoll_span_tear(span);
        count_out(cluster);
    }
    pthread_mutex_unlock(&context->leaving_lock);
}
