/*
 * Reads a committed datatype's optimised description: the one that Open MPI itself packs by, so the order of bytes is the
 * same as on ranks that do not pack here.
 */
#include "coll_gpucoll_layout.h"
#include <pthread.h>
#include "opal/datatype/opal_datatype_internal.h"

/* No reference to the type is held, or the application's attribute callbacks would not be called when it frees the type: an attribute of
 * gpucoll's own tells of that. */
struct known {
    ompi_datatype_t *type;
    struct gpucoll_layout *layout; /* NULL: it has none */
};

/* As many as a program uses in one phase; each costs at most the memory of its list. */
enum { MOST_KNOWN = 64, MOST_JOINED = 16 };

static struct {
    pthread_mutex_t lock;
    struct known known[MOST_KNOWN];
    int count;
    int oldest;                                 /* replaced when all are taken */
    struct gpucoll_layout *joined[MOST_JOINED]; /* of no type; NULL: none */
    int oldest_joined;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The attribute's; made at first use. */
static struct {
    pthread_mutex_t lock;
    int keyval;
} attribute = {PTHREAD_MUTEX_INITIALIZER, MPI_KEYVAL_INVALID};

static void add_element(struct gpucoll_layout_builder *builder, const ddt_elem_desc_t *element,
                        ptrdiff_t offset)
{
    const size_t bytes = element->blocklen * opal_datatype_basicDatatypes[element->common.type]->size;
    if (element->count > 1) {
        gpucoll_layout_add_loop(builder, element->count, element->extent);
        gpucoll_layout_add_run(builder, offset + element->disp, bytes);
        gpucoll_layout_end_loop(builder);
    } else if (element->count == 1) {
        gpucoll_layout_add_run(builder, offset + element->disp, bytes);
    }
}

/* One element of the type, which begins at `offset`. */
static void add_description(struct gpucoll_layout_builder *builder, const opal_datatype_t *type,
                            ptrdiff_t offset)
{
    const dt_type_desc_t *description = type->opt_desc.desc != NULL ? &type->opt_desc : &type->desc;
    int depth = 0;
    for (size_t i = 0; i < description->used; i++) {
        const dt_elem_desc_t *entry = &description->desc[i];
        if (entry->elem.common.flags & OPAL_DATATYPE_FLAG_DATA) {
            add_element(builder, &entry->elem, offset);
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
    add_description(builder, type, 0);
    struct gpucoll_layout *layout = gpucoll_layout_build(builder, type->ub - type->lb);
    if (layout != NULL && layout->bytes != type->size) {
        gpucoll_layout_release(layout); /* there is more to this type than is understood here */
        layout = NULL;
    }
    return layout;
}

void gpucoll_layout_describe(const ompi_datatype_t *type, ptrdiff_t offset, size_t count,
                             struct gpucoll_layout_builder *builder)
{
    gpucoll_layout_add_loop(builder, count, type->super.ub - type->super.lb);
    add_description(builder, &type->super, offset);
    gpucoll_layout_end_loop(builder);
}

/* With the lock held. */
static struct known *find(const ompi_datatype_t *type)
{
    for (struct known *known = cache.known; known < cache.known + cache.count; known++) {
        if (known->type == type) {
            return known;
        }
    }
    return NULL;
}

/* The type is about to be gone. */
static int forget(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)key;
    (void)value;
    (void)extra;
    struct gpucoll_layout *layout = NULL;
    pthread_mutex_lock(&cache.lock);
    struct known *known = find(type);
    if (known != NULL) {
        layout = known->layout;
        *known = cache.known[--cache.count];
        cache.oldest = 0;
    }
    pthread_mutex_unlock(&cache.lock);
    gpucoll_layout_release(layout);
    return MPI_SUCCESS;
}

/* With the attribute's lock. One that is set once more is first deleted, and Open MPI frees it twice where two threads do so. */
static bool set_attribute(ompi_datatype_t *type)
{
    void *value;
    int is_set = 0;
    if (attribute.keyval == MPI_KEYVAL_INVALID &&
        PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, &attribute.keyval, NULL) != MPI_SUCCESS) {
        return false;
    }
    return PMPI_Type_get_attr(type, attribute.keyval, &value, &is_set) == MPI_SUCCESS &&
           (is_set || PMPI_Type_set_attr(type, attribute.keyval, &cache) == MPI_SUCCESS);
}

/* Shall we be told when the type is freed? Without the cache's lock: `forget` takes that, from within Open MPI's functions of attributes. Nobody waits for
 * the attribute's, as who comes from a function that deletes an attribute may be in those, too: then a later call is told. */
static bool will_be_told(ompi_datatype_t *type)
{
    if (ompi_datatype_is_predefined(type)) {
        return true; /* it never is */
    }
    if (pthread_mutex_trylock(&attribute.lock) != 0) {
        return false;
    }
    const bool told = set_attribute(type);
    pthread_mutex_unlock(&attribute.lock);
    return told;
}

/* Takes a reference, unless another thread has been here first. */
static void learn(ompi_datatype_t *type, struct gpucoll_layout *layout)
{
    struct gpucoll_layout *left = NULL;
    pthread_mutex_lock(&cache.lock);
    if (find(type) == NULL) {
        struct known *known = &cache.known[cache.oldest];
        if (cache.count < MOST_KNOWN) {
            known = &cache.known[cache.count++];
        } else {
            cache.oldest = (cache.oldest + 1) % MOST_KNOWN;
            left = known->layout;
        }
        *known = (struct known){type, layout};
        if (layout != NULL) {
            gpucoll_layout_retain(layout);
        }
    }
    pthread_mutex_unlock(&cache.lock);
    gpucoll_layout_release(left);
}

struct gpucoll_layout *gpucoll_layout_of(ompi_datatype_t *type)
{
    pthread_mutex_lock(&cache.lock);
    const struct known *known = find(type);
    struct gpucoll_layout *layout = known != NULL ? known->layout : NULL;
    const bool found = known != NULL;
    if (layout != NULL) {
        gpucoll_layout_retain(layout);
    }
    pthread_mutex_unlock(&cache.lock);
    if (!found) {
        layout = make_layout(&type->super);
        if (will_be_told(type)) {
            learn(type, layout);
        }
    }
    return layout;
}

struct gpucoll_layout *gpucoll_layout_known(struct gpucoll_layout *layout)
{
    struct gpucoll_layout *left = layout;
    struct gpucoll_layout *known = NULL;
    pthread_mutex_lock(&cache.lock);
    for (int i = 0; i < MOST_JOINED && known == NULL; i++) {
        if (cache.joined[i] != NULL && gpucoll_layout_equal(cache.joined[i], layout)) {
            known = cache.joined[i];
        }
    }
    if (known == NULL) {
        known = layout;
        left = cache.joined[cache.oldest_joined];
        cache.joined[cache.oldest_joined] = layout;
        cache.oldest_joined = (cache.oldest_joined + 1) % MOST_JOINED;
    }
    gpucoll_layout_retain(known);
    pthread_mutex_unlock(&cache.lock);
    gpucoll_layout_release(left);
    return known;
}

void gpucoll_layouts_clear(void)
{
    struct known left[MOST_KNOWN];
    struct gpucoll_layout *joined[MOST_JOINED];
    pthread_mutex_lock(&cache.lock);
    const int count = cache.count;
    memcpy(left, cache.known, sizeof left);
    memcpy(joined, cache.joined, sizeof joined);
    memset(cache.joined, 0, sizeof cache.joined);
    cache.count = 0;
    pthread_mutex_unlock(&cache.lock);
    for (int i = 0; i < MOST_JOINED; i++) {
        gpucoll_layout_release(joined[i]);
    }
    for (int i = 0; i < count; i++) {
        gpucoll_layout_release(left[i].layout);
    }
    pthread_mutex_lock(&attribute.lock);
    attribute.keyval = MPI_KEYVAL_INVALID; /* MPI may be initialised once more, by a session */
    pthread_mutex_unlock(&attribute.lock);
}
