/*
 * Reads a committed datatype's optimised description: the one that Open MPI itself packs by, so the order of bytes is the
 * same as on ranks that do not pack here.
 */
#include "coll_gpucoll_layout.h"
#include <pthread.h>
#include "opal/datatype/opal_datatype_internal.h"

/* A reference to the type is held, so that its address means no other type. */
struct known {
    ompi_datatype_t *type;
    struct gpucoll_layout *layout; /* NULL: it has none */
};

/* As many as a program uses in one phase; each costs at most the memory of its list. */
enum { MOST_KNOWN = 64 };

static struct {
    pthread_mutex_t lock;
    struct known known[MOST_KNOWN];
    int count;
    int oldest; /* replaced when all are taken */
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void add_element(struct gpucoll_layout_builder *builder, const ddt_elem_desc_t *element)
{
    const size_t bytes = element->blocklen * opal_datatype_basicDatatypes[element->common.type]->size;
    if (element->count > 1) {
        gpucoll_layout_add_loop(builder, element->count, element->extent);
        gpucoll_layout_add_run(builder, element->disp, bytes);
        gpucoll_layout_end_loop(builder);
    } else if (element->count == 1) {
        gpucoll_layout_add_run(builder, element->disp, bytes);
    }
}

static void add_description(struct gpucoll_layout_builder *builder, const dt_type_desc_t *description)
{
    int depth = 0;
    for (size_t i = 0; i < description->used; i++) {
        const dt_elem_desc_t *entry = &description->desc[i];
        if (entry->elem.common.flags & OPAL_DATATYPE_FLAG_DATA) {
            add_element(builder, &entry->elem);
        } else if (entry->elem.common.type == OPAL_DATATYPE_LOOP) {
            gpucoll_layout_add_loop(builder, entry->loop.loops, entry->loop.extent);
            depth++;
        } else if (entry->elem.common.type == OPAL_DATATYPE_END_LOOP && depth > 0) {
            gpucoll_layout_end_loop(builder);
            depth--;
        }
    }
}

static struct gpucoll_layout *make_layout(const opal_datatype_t *type)
{
    struct gpucoll_layout_builder *builder = gpucoll_layout_begin();
    if (builder == NULL) {
        return NULL;
    }
    add_description(builder, type->opt_desc.desc != NULL ? &type->opt_desc : &type->desc);
    struct gpucoll_layout *layout = gpucoll_layout_build(builder, type->ub - type->lb);
    if (layout != NULL && layout->bytes != type->size) {
        gpucoll_layout_release(layout); /* there is more to this type than is understood here */
        layout = NULL;
    }
    return layout;
}

/* What has left the cache; dropped without its lock, since the last reference to a type calls the application's
 * attribute callbacks. */
struct left {
    struct known known[MOST_KNOWN];
    int count;
};

static void drop(const struct left *left)
{
    for (int i = 0; i < left->count; i++) {
        ompi_datatype_t *type = left->known[i].type;
        gpucoll_layout_release(left->known[i].layout);
        OMPI_DATATYPE_RELEASE(type);
    }
}

static bool is_freed(ompi_datatype_t *type)
{
    return !ompi_datatype_is_predefined(type) && type->super.super.obj_reference_count == 1;
}

static void take_freed(struct left *left)
{
    int kept = 0;
    for (int i = 0; i < cache.count; i++) {
        if (is_freed(cache.known[i].type)) {
            left->known[left->count++] = cache.known[i];
        } else {
            cache.known[kept++] = cache.known[i];
        }
    }
    cache.count = kept;
}

static struct known *learn(ompi_datatype_t *type, struct left *left)
{
    struct known *known;
    take_freed(left);
    if (cache.count < MOST_KNOWN) {
        known = &cache.known[cache.count++];
    } else {
        known = &cache.known[cache.oldest];
        cache.oldest = (cache.oldest + 1) % MOST_KNOWN;
        left->known[left->count++] = *known;
    }
    OMPI_DATATYPE_RETAIN(type);
    *known = (struct known){type, make_layout(&type->super)};
    return known;
}

struct gpucoll_layout *gpucoll_layout_of(ompi_datatype_t *type)
{
    struct left left;
    left.count = 0;
    pthread_mutex_lock(&cache.lock);
    const struct known *known = cache.known;
    while (known < cache.known + cache.count && known->type != type) {
        known++;
    }
    if (known == cache.known + cache.count) {
        known = learn(type, &left);
    }
    struct gpucoll_layout *layout = known->layout;
    if (layout != NULL) {
        gpucoll_layout_retain(layout);
    }
    pthread_mutex_unlock(&cache.lock);
    drop(&left);
    return layout;
}

void gpucoll_layouts_clear(bool types_live)
{
    struct left left;
    pthread_mutex_lock(&cache.lock);
    left.count = cache.count;
    memcpy(left.known, cache.known, sizeof left.known);
    cache.count = 0;
    pthread_mutex_unlock(&cache.lock);
    if (types_live) {
        drop(&left);
        return;
    }
    for (int i = 0; i < left.count; i++) {
        gpucoll_layout_release(left.known[i].layout);
    }
}
