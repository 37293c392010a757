/*
 * A network over UCX whose notes (ucx_tl/rdma/withdraw.c) wait for room on the connection, as over a socket that is full. (In C: the network's
 * own structures are no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_HELD_NOTE_H
#define GPUCOLL_TEST_UNIT_HELD_NOTE_H

#include "ucx_tl/net.h"

/* From now on notes of this end wait. */
void test_hold_notes(struct gpucoll_net *ties);
/* There is room: UCX reads the latest note now, and is done with it. What it says; 0: there is none. */
uint64_t test_let_note_go(void);

#endif
