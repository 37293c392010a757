/*
 * To whom a rail has sent: so that who is through waits for these messages to leave the process, and for no others. And with whom it has had to do at
 * all: so that who gives up tells those who may wait for it.
 */
#include "core/rail/rail_run.h"

#include <stdlib.h>

static bool reserve(struct gpucoll_rail *rail)
{
    struct gpucoll_rail_sent *sent = &rail->sent;
    if (sent->ranks == NULL) {
        sent->ranks = malloc(rail->size * sizeof *sent->ranks);
    }
    if (sent->ties == NULL) {
        sent->ties = calloc(rail->size, sizeof *sent->ties);
    }
    return sent->ranks != NULL && sent->ties != NULL;
}

void gpucoll_rail_note(struct gpucoll_rail *rail, uint32_t to, const struct gpucoll_net_message *message)
{
    struct gpucoll_rail_sent *sent = &rail->sent;
    if (!reserve(rail)) {
        return;
    }
    if (sent->ties[to] == 0) {
        sent->ranks[sent->count++] = to;
    }
    sent->ties[to] |= (uint8_t)(1u << message->tie);
}

bool gpucoll_rail_drained(struct gpucoll_rail *rail)
{
    struct gpucoll_rail_sent *sent = &rail->sent;
    uint32_t left = 0;
    for (uint32_t i = 0; i < sent->count; i++) {
        const uint32_t to = sent->ranks[i];
        if (rail->ops->drained(rail->net, rail->peer[to], sent->ties[to])) {
            sent->ties[to] = 0;
        } else {
            sent->ranks[left++] = to;
        }
    }
    sent->count = left;
    return left == 0;
}

void gpucoll_rail_meet(struct gpucoll_rail *rail, uint32_t rank)
{
    if (rail->met == NULL) {
        rail->met = calloc(rail->size, sizeof *rail->met);
    }
    if (rail->met != NULL) { /* else it hears from others, or in time */
        rail->met[rank] = true;
    }
}

bool gpucoll_rail_has_met(const struct gpucoll_rail *rail, uint32_t rank)
{
    return rail->met != NULL && rail->met[rank];
}

void gpucoll_rail_forget(struct gpucoll_rail *rail)
{
    struct gpucoll_rail_sent *sent = &rail->sent;
    while (sent->count > 0) {
        sent->ties[sent->ranks[--sent->count]] = 0;
    }
}
