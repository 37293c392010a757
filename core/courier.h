/*
 * A few bytes between a GPU and its host, by a kernel that lingers instead of a copy engine (kernels/courier.cuh). One set of bytes at a time is on
 * its way: what comes meanwhile, and what comes too rarely for a kernel to linger, is for the copy engines.
 */
#ifndef GPUCOLL_COURIER_H
#define GPUCOLL_COURIER_H

#include "core/accel/accel.h"
#include "core/habit.h"

/* Of a GPU; all zero at first. The caller serialises all calls. */
struct gpucoll_courier {
    struct gpucoll_stream *stream; /* NULL: not needed so far */
    bool failed;                   /* said, and not tried again */
    struct gpucoll_habit habit;
    uint64_t taken;  /* number of the latest */
    uint32_t done;   /* of its kernel */
    uint64_t passed; /* of the latest known to be complete */
    void *into;      /* where the latest goes on the host; NULL: it goes to the GPU */
    uint32_t bytes;
    uint32_t looks;
};

/* Takes what a copier could copy, of GPUCOLL_COURIER_BYTES at most, from host memory or into it (`to_host`), of `device` at the other end, whose results nobody may look for in memory
 * that migrates. What comes out of host memory has been read on return, what goes there is there when it is complete. False: it has not been
 * taken, and may be given to a copier. */
bool gpucoll_courier_take(struct gpucoll_courier *courier, struct gpucoll_device *device,
                          const struct gpucoll_copy *copy, bool to_host);
/* Brings `passed` up to date; an error that the device has met is shown by topic "device-error". */
gpucoll_status gpucoll_courier_look(struct gpucoll_courier *courier) GPUCOLL_CHECKED;
/* The bytes with this number no longer have a place on the host: it is given back to whoever it is of. */
void gpucoll_courier_forget(struct gpucoll_courier *courier, uint64_t number);
void gpucoll_courier_close(struct gpucoll_courier *courier); /* harmless on a zeroed struct */

#endif
