/*
 * The order of the ring that a team has found, to be looked at and changed.
 */
#ifndef GPUCOLL_TEST_RELAY_ORDER_H
#define GPUCOLL_TEST_RELAY_ORDER_H

#include <stdint.h>

struct gpucoll_team;

/* Of the latest links of the team, which has some: its ranks. */
uint32_t *relay_order(struct gpucoll_team *team);

#endif
