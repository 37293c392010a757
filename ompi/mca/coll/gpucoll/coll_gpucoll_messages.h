/*
 * The engine's words, shown by Open MPI. Those of the progress thread are kept until a thread of the
 * application shows them: Open MPI may be without locks.
 */
#ifndef COLL_GPUCOLL_MESSAGES_H
#define COLL_GPUCOLL_MESSAGES_H

#include "core/base/log.h"

/* Fills in the functions, and finds the texts for them. */
void gpucoll_messages_open(struct gpucoll_log *log, const void *component);
/* Shows what the progress thread has said. */
void gpucoll_messages_show(void);

#endif
