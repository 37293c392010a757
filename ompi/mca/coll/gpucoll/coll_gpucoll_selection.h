/*
 * `--mca coll gpucoll`, taken literally, selects gpucoll alone, which cannot serve a communicator: it stands
 * on others.
 */
#ifndef COLL_GPUCOLL_SELECTION_H
#define COLL_GPUCOLL_SELECTION_H

/* Called while components register. If the user's selection names gpucoll but leaves out what it stands on,
 * the other components are registered as well, as if nothing had been selected. */
void gpucoll_selection_complete(void);

#endif
