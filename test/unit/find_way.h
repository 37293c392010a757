/*
 * A context that is told that its device reaches another one over PCIe. (In C: its structure is no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_FIND_WAY_H
#define GPUCOLL_TEST_UNIT_FIND_WAY_H

struct gpucoll_context;

/* Does it look for the machine's topology then, and not before? NULL, or what is wrong. */
const char *test_find_way(struct gpucoll_context *context);

#endif
