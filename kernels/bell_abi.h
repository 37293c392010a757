/*
 * How the host gives a lingering kernel its next call, in host memory that the device polls. A chunk is written by two 8-byte
 * stores, first the pointer and then, as a release, the value together with the sequence number (the call's done_value). It is
 * read by one 16-byte load, or copied with others, which takes both words from one look at its cache line: with the number it has the pointer of the
 * same call. So a warp that reads all chunks with one load for each lane knows from the numbers whether it has the call, whatever
 * the order in which the chunks became visible.
 *
 *   chunk 0        send buffer | bytes
 *   chunk 1        receive buffer | kernel, or GPUCOLL_BELL_LEAVE, and above it the number of CTAs that share the call and the variant
 *   chunk 2 + i    lane of rank i | its epoch
 *
 * An exchange has two more rows behind that of the lanes, a chunk for each rank: the run that is sent, place | bytes, and the one that is
 * received. (Runs of calls that are rung for are shorter than 4 GiB.) MOVE_LAYOUTS has another two, of their layouts. They mean nothing to other calls, nor
 * with LEAVE. All that is to be read lies together.
 *
 * Each CTA of the kernel has a bell of its own, rung for the calls that it has a part in: loads of the same line of host memory by several
 * SMs are done one after the other (docs/design-linger.md).
 */
#ifndef GPUCOLL_BELL_ABI_H
#define GPUCOLL_BELL_ABI_H

#include "kernels/kernel_abi.h"

struct gpucoll_bell_chunk {
    uint64_t pointer;
    uint32_t value;
    uint32_t sequence;
};

enum { GPUCOLL_BELL_CHUNKS = 160, GPUCOLL_BELL_LEAVE = 0xffff };

/* Rows behind that of the lanes, and how many a call has. */
enum gpucoll_bell_row {
    GPUCOLL_BELL_SEND,
    GPUCOLL_BELL_RECV,
    GPUCOLL_BELL_SEND_LAYOUT,
    GPUCOLL_BELL_RECV_LAYOUT,
    GPUCOLL_BELL_NO_ROWS = 0,
    GPUCOLL_BELL_RUN_ROWS = 2,
    GPUCOLL_BELL_LAYOUT_ROWS = 4
};

struct gpucoll_bell {
    struct gpucoll_bell_chunk chunk[GPUCOLL_BELL_CHUNKS];
};

/* Which chunk of a row is that of rank i. */
static inline GPUCOLL_HD uint32_t gpucoll_bell_chunk_of(uint32_t nranks, uint32_t row, uint32_t i)
{
    return 2 + (row + 1) * nranks + i;
}

/* How many there are of a call. */
static inline GPUCOLL_HD uint32_t gpucoll_bell_chunks(uint32_t nranks, uint32_t rows)
{
    return 2 + (rows + 1) * nranks;
}

#endif
