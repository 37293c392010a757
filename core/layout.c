#include "core/layout.h"

#include <stdlib.h>
#include <string.h>

/* A run before normalisation. */
struct piece {
    ptrdiff_t offset;
    uint64_t bytes;
};

struct dim {
    uint64_t count;
    ptrdiff_t stride;
};

/* Dimensions around a list of pieces. The dimension of the elements is not among them. */
enum { SHAPE_DIMS = GPUCOLL_LAYOUT_DIMS - 1 };
struct shape {
    uint32_t dims;
    struct dim dim[SHAPE_DIMS]; /* outermost first */
    uint32_t pieces;
    uint32_t room;
    struct piece *piece;
};

/* A loop that has not ended: its body so far. The outermost is the element. */
struct frame {
    struct frame *outer;
    uint64_t count;
    ptrdiff_t stride;
    struct shape body;
};

struct gpucoll_layout_builder {
    struct frame *inner;
    bool failed;
};

static bool add_piece(struct shape *shape, struct piece piece)
{
    if (shape->pieces > 0) {
        struct piece *last = &shape->piece[shape->pieces - 1];
        if (last->offset + (ptrdiff_t)last->bytes == piece.offset) {
            last->bytes += piece.bytes;
            return true;
        }
    }
    if (shape->pieces == GPUCOLL_LAYOUT_MOST_RUNS) {
        return false;
    }
    if (shape->pieces == shape->room) {
        uint32_t room = shape->room == 0 ? 16 : 2 * shape->room;
        struct piece *more = realloc(shape->piece, room * sizeof *more);
        if (more == NULL) {
            return false;
        }
        shape->piece = more;
        shape->room = room;
    }
    shape->piece[shape->pieces++] = piece;
    return true;
}

static void drop_shape(struct shape *shape)
{
    free(shape->piece);
    memset(shape, 0, sizeof *shape);
}

/* Appends the pieces of `from` as often as its dimensions from `dim` on say. */
static bool append(struct shape *to, const struct shape *from, uint32_t dim, ptrdiff_t offset)
{
    if (dim == from->dims) {
        for (uint32_t i = 0; i < from->pieces; i++) {
            const struct piece piece = {from->piece[i].offset + offset, from->piece[i].bytes};
            if (!add_piece(to, piece)) {
                return false;
            }
        }
        return true;
    }
    for (uint64_t i = 0; i < from->dim[dim].count; i++) {
        if (!append(to, from, dim + 1, offset + (ptrdiff_t)i * from->dim[dim].stride)) {
            return false;
        }
    }
    return true;
}

/* Turns the dimensions from `kept` on into pieces. */
static bool expand(struct shape *shape, uint32_t kept)
{
    if (shape->dims <= kept) {
        return true;
    }
    struct shape list = {0};
    if (!append(&list, shape, kept, 0)) {
        drop_shape(&list);
        return false;
    }
    free(shape->piece);
    shape->piece = list.piece;
    shape->pieces = list.pieces;
    shape->room = list.room;
    shape->dims = kept;
    return true;
}

/* The pieces from the first on that are equally far apart. */
static uint32_t even_pieces(const ptrdiff_t *offsets, uint32_t count)
{
    uint32_t even = 2;
    while (even < count && offsets[even] - offsets[even - 1] == offsets[1] - offsets[0]) {
        even++;
    }
    return even;
}

/* Do the offsets fall into groups of `each` that are like the first? Then leaves the first of each. */
static bool group(ptrdiff_t *offsets, uint32_t *count, uint32_t each)
{
    if (*count % each != 0) {
        return false;
    }
    for (uint32_t i = each; i < *count; i++) {
        if (offsets[i] - offsets[i - i % each] != offsets[i % each] - offsets[0]) {
            return false;
        }
    }
    for (uint32_t i = 0; i < *count / each; i++) {
        offsets[i] = offsets[i * each];
    }
    *count /= each;
    return true;
}

/* Finds dimensions, innermost first, that make all offsets; returns how many, or 0 if not with `most`. */
static uint32_t find_dims(ptrdiff_t *offsets, uint32_t count, struct dim *dims, uint32_t most)
{
    uint32_t found = 0;
    while (count > 1) {
        const uint32_t each = even_pieces(offsets, count);
        const ptrdiff_t stride = offsets[1] - offsets[0];
        if (found == most || !group(offsets, &count, each)) {
            return 0;
        }
        dims[found++] = (struct dim){each, stride};
    }
    return found;
}

/* A list that is regular becomes dimensions. Lists often come from indexed types of which the application knows that they
 * are regular, but not MPI. */
static bool fold(struct shape *shape)
{
    if (shape->pieces < 2 || shape->dims == SHAPE_DIMS) {
        return true;
    }
    for (uint32_t i = 1; i < shape->pieces; i++) {
        if (shape->piece[i].bytes != shape->piece[0].bytes) {
            return true;
        }
    }
    ptrdiff_t *offsets = malloc(shape->pieces * sizeof *offsets);
    if (offsets == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < shape->pieces; i++) {
        offsets[i] = shape->piece[i].offset;
    }
    struct dim dims[SHAPE_DIMS];
    uint32_t found = find_dims(offsets, shape->pieces, dims, SHAPE_DIMS - shape->dims);
    if (found > 0) {
        shape->pieces = 1;
        while (found > 0) {
            shape->dim[shape->dims++] = dims[--found];
        }
    }
    free(offsets);
    return true;
}

/* The whole shape `count` times. */
static bool repeat(struct shape *shape, uint64_t count, ptrdiff_t stride)
{
    if (count == 1) {
        return true;
    }
    if (shape->dims == 0 && shape->pieces == 1 && stride == (ptrdiff_t)shape->piece[0].bytes) {
        shape->piece[0].bytes *= count;
        return true;
    }
    struct dim *outermost = &shape->dim[0];
    if (shape->dims > 0 && stride == (ptrdiff_t)outermost->count * outermost->stride) {
        outermost->count *= count;
        return true;
    }
    if (!expand(shape, SHAPE_DIMS - 1)) {
        return false;
    }
    memmove(&shape->dim[1], &shape->dim[0], shape->dims * sizeof shape->dim[0]);
    shape->dim[0] = (struct dim){count, stride};
    shape->dims++;
    return true;
}

/* Is `more` what `shape` has within its first `outer` dimensions, but for the count of its own first `loose`, so much further on? */
static bool is_further(const struct shape *shape, uint32_t outer, const struct shape *more, uint32_t loose,
                       ptrdiff_t *further)
{
    bool alike = shape->dims == outer + more->dims && shape->pieces == more->pieces;
    for (uint32_t i = 0; alike && i < more->dims; i++) {
        const struct dim *dim = &shape->dim[outer + i];
        alike = dim->stride == more->dim[i].stride && (i < loose || dim->count == more->dim[i].count);
    }
    *further = alike ? more->piece[0].offset - shape->piece[0].offset : 0;
    for (uint32_t i = 0; alike && i < more->pieces; i++) {
        alike = shape->piece[i].bytes == more->piece[i].bytes &&
                more->piece[i].offset - shape->piece[i].offset == *further;
    }
    return alike;
}

/* Takes `more` as a repetition, if it is one: far fewer pieces than to list all. A shape without dimensions is a list, which is looked at as a whole. */
static bool repeats(struct shape *shape, const struct shape *more)
{
    struct dim *outermost = &shape->dim[0];
    ptrdiff_t further;
    if (more->dims == 0) {
        return false;
    }
    if (is_further(shape, 0, more, 1, &further) &&
        further == (ptrdiff_t)outermost->count * outermost->stride) {
        outermost->count += more->dim[0].count;
        return true;
    }
    if (is_further(shape, 1, more, 0, &further) &&
        further == (ptrdiff_t)outermost->count * outermost->stride) {
        outermost->count++;
        return true;
    }
    if (shape->dims == SHAPE_DIMS || !is_further(shape, 0, more, 0, &further)) {
        return false;
    }
    memmove(&shape->dim[1], &shape->dim[0], shape->dims * sizeof shape->dim[0]);
    shape->dim[0] = (struct dim){2, further};
    shape->dims++;
    return true;
}

/* Takes over or frees what `more` holds. */
static bool add_shape(struct shape *shape, struct shape *more)
{
    if (shape->pieces == 0) {
        drop_shape(shape);
        *shape = *more;
        return true;
    }
    if (repeats(shape, more)) {
        drop_shape(more);
        return true;
    }
    bool added = expand(shape, 0) && append(shape, more, 0, 0);
    drop_shape(more);
    return added;
}

struct gpucoll_layout_builder *gpucoll_layout_begin(void)
{
    struct gpucoll_layout_builder *builder = calloc(1, sizeof *builder);
    struct frame *element = calloc(1, sizeof *element);
    if (builder == NULL || element == NULL) {
        free(builder);
        free(element);
        return NULL;
    }
    builder->inner = element;
    return builder;
}

void gpucoll_layout_add_run(struct gpucoll_layout_builder *builder, ptrdiff_t offset, uint64_t bytes)
{
    struct shape *body = &builder->inner->body;
    if (bytes > 0 && !builder->failed) {
        builder->failed = !expand(body, 0) || !add_piece(body, (struct piece){offset, bytes});
    }
}

void gpucoll_layout_add_loop(struct gpucoll_layout_builder *builder, uint64_t count, ptrdiff_t stride)
{
    struct frame *frame = builder->failed ? NULL : calloc(1, sizeof *frame);
    if (frame == NULL) {
        builder->failed = true;
        return;
    }
    frame->outer = builder->inner;
    frame->count = count;
    frame->stride = stride;
    builder->inner = frame;
}

void gpucoll_layout_end_loop(struct gpucoll_layout_builder *builder)
{
    struct frame *frame = builder->inner;
    if (builder->failed) {
        return;
    }
    builder->inner = frame->outer;
    if (frame->count == 0 || frame->body.pieces == 0) {
        drop_shape(&frame->body);
    } else if (!fold(&frame->body) || !repeat(&frame->body, frame->count, frame->stride)) {
        drop_shape(&frame->body);
        builder->failed = true;
    } else {
        builder->failed = !add_shape(&frame->outer->body, &frame->body);
    }
    free(frame);
}

/* Reciprocal for positions below 2^63: with s = ceil(log2 bytes), floor(2^(63 + s) / bytes) + 1 fits in 64 bits and errs too
 * little to show (Granlund and Montgomery, "Division by invariant integers using multiplication", theorem 4.2). */
static struct gpucoll_layout_dim make_dim(uint64_t bytes, ptrdiff_t stride)
{
    __extension__ typedef unsigned __int128 wide;
    struct gpucoll_layout_dim dim = {.bytes = bytes, .stride = stride};
    if (bytes > 1) {
        const uint32_t log = 64 - (uint32_t)__builtin_clzll(bytes - 1);
        dim.magic = (uint64_t)(((wide)1 << (63 + log)) / bytes) + 1;
        dim.shift = log - 1;
    }
    return dim;
}

static void fill_view(struct gpucoll_layout *layout, const struct shape *shape)
{
    struct gpucoll_layout_view *view = &layout->view;
    view->runs = shape->pieces;
    view->offset = shape->piece[0].offset;
    for (uint32_t i = 0; i < shape->pieces; i++) {
        view->bytes += shape->piece[i].bytes;
    }
    view->mean = make_dim(view->bytes / view->runs, 0);
    layout->bytes = view->bytes;
    for (uint32_t i = 0; i < shape->dims; i++) {
        layout->bytes *= shape->dim[i].count;
    }
    uint64_t inner = layout->bytes;
    /* Elements that continue the outermost dimension are only more of it. */
    const bool joined =
        shape->dims > 0 && layout->extent == (ptrdiff_t)shape->dim[0].count * shape->dim[0].stride;
    if (!joined) {
        view->dim[view->dims++] = make_dim(inner, layout->extent);
    }
    for (uint32_t i = 0; i < shape->dims; i++) {
        inner /= shape->dim[i].count;
        view->dim[view->dims++] = make_dim(inner, shape->dim[i].stride);
    }
}

static bool fill_list(struct gpucoll_layout *layout, const struct shape *shape)
{
    layout->align = gpucoll_layout_align((uint64_t)layout->extent, GPUCOLL_LAYOUT_WIDTH);
    for (uint32_t i = 0; i < shape->dims; i++) {
        layout->align = gpucoll_layout_align((uint64_t)shape->dim[i].stride, layout->align);
    }
    layout->even = true;
    for (uint32_t i = 0; i < shape->pieces; i++) {
        const struct piece *piece = &shape->piece[i];
        layout->even &= piece->bytes == shape->piece[0].bytes;
        layout->align = gpucoll_layout_align((uint64_t)piece->offset | piece->bytes, layout->align);
    }
    if (shape->pieces == 1) {
        return true;
    }
    layout->list = malloc(shape->pieces * sizeof *layout->list);
    if (layout->list == NULL) {
        return false;
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < shape->pieces; i++) {
        layout->list[i] = (struct gpucoll_layout_run){at, shape->piece[i].offset};
        at += shape->piece[i].bytes;
    }
    layout->view.list = layout->list;
    return true;
}

static struct gpucoll_layout *make_layout(struct shape *shape, ptrdiff_t extent)
{
    struct gpucoll_layout *layout = NULL;
    if (shape->pieces > 0 && fold(shape)) {
        layout = calloc(1, sizeof *layout);
    }
    if (layout == NULL) {
        return NULL;
    }
    layout->references = 1;
    layout->extent = extent;
    layout->first = shape->piece[0].offset;
    fill_view(layout, shape);
    if (!fill_list(layout, shape)) {
        free(layout);
        return NULL;
    }
    return layout;
}

struct gpucoll_layout *gpucoll_layout_build(struct gpucoll_layout_builder *builder, ptrdiff_t extent)
{
    struct gpucoll_layout *layout = builder->failed ? NULL : make_layout(&builder->inner->body, extent);
    while (builder->inner != NULL) {
        struct frame *frame = builder->inner;
        builder->inner = frame->outer;
        drop_shape(&frame->body);
        free(frame);
    }
    free(builder);
    return layout;
}

struct gpucoll_layout *gpucoll_layout_plain(void)
{
    static struct gpucoll_layout plain = {
        .references = 1, /* its own: it is never freed */
        .align = GPUCOLL_LAYOUT_WIDTH,
        .bytes = INT64_MAX,
        .view = {.runs = 1, .bytes = INT64_MAX},
    };
    return &plain;
}

static bool same_dims(const struct gpucoll_layout_view *a, const struct gpucoll_layout_view *b)
{
    bool same = a->dims == b->dims;
    for (uint32_t i = 0; same && i < a->dims; i++) {
        same = a->dim[i].bytes == b->dim[i].bytes && a->dim[i].stride == b->dim[i].stride;
    }
    return same;
}

static bool same_runs(const struct gpucoll_layout *a, const struct gpucoll_layout *b)
{
    const struct gpucoll_layout_view *view = &a->view;
    if (view->runs != b->view.runs || view->bytes != b->view.bytes) {
        return false;
    }
    return view->runs == 1 ? view->offset == b->view.offset
                           : memcmp(a->list, b->list, view->runs * sizeof *a->list) == 0;
}

bool gpucoll_layout_equal(const struct gpucoll_layout *a, const struct gpucoll_layout *b)
{
    if (a == NULL || b == NULL || a == b) {
        return a == b;
    }
    return a->bytes == b->bytes && a->extent == b->extent && same_dims(&a->view, &b->view) && same_runs(a, b);
}

void gpucoll_layout_retain(struct gpucoll_layout *layout)
{
    __atomic_fetch_add(&layout->references, 1, __ATOMIC_RELAXED);
}

void gpucoll_layout_release(struct gpucoll_layout *layout)
{
    if (layout == NULL || __atomic_fetch_sub(&layout->references, 1, __ATOMIC_ACQ_REL) != 1) {
        return;
    }
    if (layout->copies != NULL) {
        layout->drop_copies(layout);
    }
    free(layout->list);
    free(layout);
}
