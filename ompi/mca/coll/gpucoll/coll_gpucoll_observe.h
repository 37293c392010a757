/*
 * What the component tells of its calls: statistics (core/stats.h) as MPI_T performance variables and as the summary at the end,
 * ranges for profilers, and at log level CALL why a call was staged. The engine observes what it runs; here is what goes to
 * the next component.
 */
#ifndef COLL_GPUCOLL_OBSERVE_H
#define COLL_GPUCOLL_OBSERVE_H

#include "coll_gpucoll.h"
#include "coll_gpucoll_stage.h"

/* What is no call of the engine's with other ranks, as statistics number them: behind the barrier. */
enum gpucoll_observed_coll { GPUCOLL_OBSERVED_REDUCE_LOCAL = GPUCOLL_BARRIER + 1, GPUCOLL_OBSERVED_COUNT };

/* Names by number, GPUCOLL_OBSERVED_COUNT of them. */
const char *const *gpucoll_observed_names(void);

/* Registers the performance variables; each that is an array has its own length and help. */
void gpucoll_observe_register(mca_base_component_t *component, struct gpucoll_stats *stats);

/* A call goes to the next component, on host copies (`staged`) or as it is; a persistent one is started; it has returned, or its
 * request is complete. */
void gpucoll_observe_next(struct gpucoll_call *call, bool staged);
void gpucoll_observe_next_start(struct gpucoll_call *call);
void gpucoll_observe_next_done(struct gpucoll_call *call);

/* A reduction of this process alone runs on the engine; it has ended, or another way is taken. */
void gpucoll_observe_local(struct gpucoll_call *call);
void gpucoll_observe_local_done(struct gpucoll_call *call, const struct gpucoll_local *local,
                                gpucoll_status status);

/* Is a summary wanted? Then statistics begin. */
void gpucoll_summary_open(void);
/* Says or writes the summary, once. */
void gpucoll_summary_close(void);

#endif
