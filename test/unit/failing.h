/*
 * What fails on demand: the mapping of an allocation by peers, and memory. (In C: the engine's own structures are no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_FAILING_H
#define GPUCOLL_TEST_UNIT_FAILING_H

#include <stdbool.h>
#include <stddef.h>
#include "core/gpucoll.h"

/* From now on the process of this context cannot map the allocation that test_unmappable has named. */
void test_heed_unmappable(struct gpucoll_context *context);
void test_unmappable(const void *place); /* NULL: none */

/* In the calling thread calloc has no memory of so many bytes or more; 0: it has. The program is linked with --wrap=calloc. */
void test_no_memory_from(size_t bytes);
/* How often there was none, since then. */
unsigned test_memory_refused(void);

#endif
