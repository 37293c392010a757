/*
 * The begin of MPI_Finalize, while everything is still there: teams, connections to peers and pinned memory
 * go then. The barrier that MPI_Finalize runs next separates that from the component's close, in which the
 * memory that peers had mapped is freed.
 */
#ifndef COLL_GPUCOLL_FINALIZE_H
#define COLL_GPUCOLL_FINALIZE_H

#include <stdbool.h>

/* Asks to be told. Cheap to repeat; false: could not be asked, in MPI_Init perhaps not yet. */
bool gpucoll_watch_finalize(void);

#endif
