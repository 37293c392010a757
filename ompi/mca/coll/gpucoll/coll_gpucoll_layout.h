/*
 * The layouts (core/layout.h) of Open MPI's datatypes.
 */
#ifndef COLL_GPUCOLL_LAYOUT_H
#define COLL_GPUCOLL_LAYOUT_H

#include "coll_gpucoll_compat.h"
#include "core/layout.h"

/* The layout of the type's elements; NULL if they cannot be packed on the device (too irregular, or out of memory). The
 * caller has a reference. Layouts are kept for the types that were used last. Any thread. */
struct gpucoll_layout *gpucoll_layout_of(ompi_datatype_t *type);

/* Adds `count` elements of the type to a layout, the first one `offset` bytes into the buffer. */
void gpucoll_layout_describe(const ompi_datatype_t *type, ptrdiff_t offset, size_t count,
                             struct gpucoll_layout_builder *builder);

/* An equal layout that was passed here lately, else this one: what a layout has on devices is made once then. Takes the caller's reference, and gives one of
 * what it returns. Any thread. */
struct gpucoll_layout *gpucoll_layout_known(struct gpucoll_layout *layout);

/* Forgets all. */
void gpucoll_layouts_clear(void);

#endif
