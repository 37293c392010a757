/*
 * What AUTO of the rails reckons with, in nanoseconds. Integers from constants, since all ranks must choose alike. The constants are those of one
 * network card of 100 Gbit/s and of a core that reduces 10 GB/s; they need not be the machine's: where two algorithms cross, neither
 * is far from the other, and what decides (few or many messages one after the other, how often a byte crosses a link) is the same everywhere.
 */
#ifndef GPUCOLL_RAIL_MODEL_H
#define GPUCOLL_RAIL_MODEL_H

#include <stdint.h>

/* Rounds in which `size` ranks hear from all: log2, rounded up. */
uint32_t gpucoll_rail_rounds(uint32_t size);

/* What `bytes` cost, in bytes, if `size` ranks send to others at all distances at once: most networks carry less between distant hosts than
 * neighbours exchange. */
uint64_t gpucoll_rail_far(uint32_t size, uint64_t bytes);

/* A message of `bytes`, of which the segments are reduced (`reduces` 1) or not (0) as they arrive. */
uint64_t gpucoll_rail_step_ns(uint64_t bytes, uint32_t reduces);

/* The segment for `bytes` that pass `hops` ranks one after the other: with few segments a rank waits long for its first, with many each
 * costs. The best number of them is the square root of hops times what the bytes take over what a message takes. */
uint32_t gpucoll_rail_piece(uint64_t bytes, uint32_t hops);

/* `bytes` in such segments along `hops` ranks; the busiest sends them `sends` times and reduces `reduces` times. */
uint64_t gpucoll_rail_pipeline_ns(uint64_t bytes, uint32_t hops, uint32_t sends, uint32_t reduces);

#endif
