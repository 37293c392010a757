/*
 * Random data for every functor of kernels/functors.h: values whose reduction over a few ranks is exact to
 * compare, that is, gives no NaN, and that often tie where ties matter. From one seed, so that a failure can
 * be run again.
 */
#ifndef GPUCOLL_TEST_GPU_ELEMENTS_H
#define GPUCOLL_TEST_GPU_ELEMENTS_H

#include <stddef.h>
#include <stdint.h>

uint64_t next_random(uint64_t *state);

/* Fills `bytes` (any number) with elements of the functor. */
void fill_elements(int functor, void *to, size_t bytes, uint64_t *state);

#endif
