/*
 * Memory in pieces: allocations that lie one behind the other in the addresses of their process, as cuMemMap puts them, and that peers map
 * by a file descriptor each. What both accelerators have in common here is the handle; how a descriptor becomes memory is theirs.
 */
#ifndef GPUCOLL_ACCEL_PIECES_H
#define GPUCOLL_ACCEL_PIECES_H

#include "core/accel/accel.h"

/* A handle of this process for what begins at `address`, without a piece yet. */
void gpucoll_pieces_begin(uint64_t address, struct gpucoll_memory_handle *handle);
/* Adds a piece, whose descriptor peers may take from now on. It is the handle's, and closed in case of false: too many pieces, or so many
 * descriptors are open for peers in this process that the application might run out of them. */
bool gpucoll_pieces_add(struct gpucoll_accel *accel, struct gpucoll_memory_handle *handle, int fd,
                        uint64_t bytes);
/* Closes its descriptors; harmless on a handle of another kind. */
void gpucoll_pieces_close(const struct gpucoll_memory_handle *handle);

/* Descriptors of this process for the pieces of a peer's handle, in order. False if they cannot be had, which is shown. */
bool gpucoll_pieces_take(struct gpucoll_accel *accel, const struct gpucoll_memory_handle *handle,
                         int fds[GPUCOLL_HANDLE_PIECES_MAX]);
void gpucoll_pieces_drop(const int *fds, uint32_t count);
/* Shows topic "memory-pieces", once a process: the others' memory cannot be mapped here. */
void gpucoll_pieces_show(struct gpucoll_accel *accel, const struct gpucoll_memory_handle *handle,
                         const char *reason);
/* Has the kernel refused a descriptor to this process? Then it will do so to the others, and there is no use in offering any. */
bool gpucoll_pieces_refused(void);

#endif
