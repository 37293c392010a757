/*
 * Running a collective on host copies of its buffers.
 *
 * A collective describes its two buffers: which bytes carry data into the call and which the call writes. A
 * buffer that is device memory gets host memory spanning all of them; its `pointer` then takes the user's
 * place in the call to the next component. Only written bytes are copied back, gaps of a datatype excepted:
 * the application may be using the gaps meanwhile, as in a halo exchange beside a kernel on the interior.
 */
#ifndef COLL_GPUCOLL_STAGE_H
#define COLL_GPUCOLL_STAGE_H

#include "coll_gpucoll.h"
#include "coll_gpucoll_region.h"

struct gpucoll_staged {
    void *user;
    void *pointer;            /* what the next component gets */
    struct gpucoll_region in; /* no blocks: nothing */
    struct gpucoll_region out;
    ptrdiff_t low;       /* offset of the first byte of either region */
    size_t memory_bytes; /* 0: not staged */
    size_t data_bytes;   /* of these, what is read and what is written */
    size_t spare_bytes;  /* of `memory` in front */
    void *memory;        /* with `spare_bytes` stands for user + low */
    bool mapped;         /* `memory` is a mapping of its own, not of the pool */
};

/* What statistics and profilers want to know of a call that goes to the next component (coll_gpucoll_observe.h). */
struct gpucoll_observed_call {
    bool begun;
    bool traced;
    struct gpucoll_stats_key key;
    uint64_t bytes;
    uint64_t ticks; /* when it began */
    uint64_t range;
};

struct gpucoll_call {
    const char *name;              /* of the collective, for messages */
    struct gpucoll_module *module; /* NULL: the call has no communicator, */
    enum gpucoll_reason declined;  /* and this is why the engine did not run it */
    struct gpucoll_observed_call observed;
    struct gpucoll_staged send;
    struct gpucoll_staged recv;
    const struct gpucoll_edges
        *edges;  /* of a neighborhood collective, which the module keeps; NULL: out of memory */
    bool sparse; /* host memory is to be address space only, until it is needed */
};

/* Does this rank neither send nor receive a byte? Then it does not matter where its buffers are. */
bool gpucoll_call_is_empty(const struct gpucoll_call *call);

/* Each pair of steps is undone by the last one. Errors have been shown and are MPI error codes. */
bool gpucoll_stage_wanted(struct gpucoll_call *call);
int gpucoll_stage_alloc(struct gpucoll_call *call);
int gpucoll_stage_in(struct gpucoll_call *call);
int gpucoll_stage_out(struct gpucoll_call *call);
void gpucoll_stage_free(struct gpucoll_call *call);

/* For a blocking call: all before the next component's function, and all after it, which returned `rc`. */
int gpucoll_stage_begin(struct gpucoll_call *call);
int gpucoll_stage_end(struct gpucoll_call *call, int rc);

#endif
