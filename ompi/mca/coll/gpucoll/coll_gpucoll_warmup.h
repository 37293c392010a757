/*
 * Warm-ups of sequences (coll_gpucoll_sequence.h): each waits until its process uses a GPU, is posted, and moved on by progress
 * until it has ended. A process that uses none for some seconds passes it, and progress is left alone.
 * MPI_COMM_WORLD's is waited for in MPI_Init, if every process has a GPU by then, so that the first call finds all made.
 * All functions but gpucoll_warmup_wanted and gpucoll_warmup_world are to be called with gpucoll_enter held.
 */
#ifndef COLL_GPUCOLL_WARMUP_H
#define COLL_GPUCOLL_WARMUP_H

#include "coll_gpucoll.h"

/* Does coll_gpucoll_warmup want the communicator's sequence warm? The same on all of its ranks. */
bool gpucoll_warmup_wanted(ompi_communicator_t *comm);

/* In MPI_Init: connects the ranks of MPI_COMM_WORLD, where all know which GPU they will use, and rehearses with them, before the application's first
 * call. Called without gpucoll_enter. */
void gpucoll_warmup_world(struct gpucoll_sequence *sequence);

/* The sequence has its team, and is WARMING now. */
void gpucoll_warmup_begin(struct gpucoll_sequence *sequence);
/* Counts the warm-up, and of MPI_COMM_WORLD the rehearsals: posts them, or else passes them. */
void gpucoll_warmup_count(struct gpucoll_sequence *sequence);
/* The sequence is about to be closed; harmless on one that has no warm-up. */
void gpucoll_warmup_forget(struct gpucoll_sequence *sequence);

void gpucoll_warmups_progress(void);
bool gpucoll_warmups_pending(void);

#endif
