/*
 * Laid runs: short runs of an exchange whose ends are not contiguous and need not be packed, since its kernel finds their bytes by their layouts
 * (GPUCOLL_KERNEL_MOVE_LAYOUTS). That spares such a call two launches, before and after, and lets its kernel linger.
 */
#ifndef GPUCOLL_LAID_RUNS_H
#define GPUCOLL_LAID_RUNS_H

#include "core/request.h"

/* Of a request that has a plan: decides whether its runs are laid (gpucoll_packing.laid), and directs them to the user's memory, or to what is packed. May be
 * called again, for another plan. Each rank decides for itself: what travels is the same. */
void gpucoll_laid_runs_settle(struct gpucoll_request *request);

#endif
