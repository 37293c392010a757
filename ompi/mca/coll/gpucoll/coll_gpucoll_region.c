/*
 * Regions: extents, and the walk over contiguous runs. A datatype that is one run an element is walked here,
 * any other by Open MPI's convertor in its "raw" mode, which lists pieces of memory instead of copying them.
 */
#include "coll_gpucoll_region.h"
#include <sys/uio.h>
#include "coll_gpucoll_layout.h"
#include "opal/datatype/opal_convertor.h"

enum { IOV_BATCH = 64 }; /* pieces asked from the convertor at a time */

struct block {
    ptrdiff_t offset;
    size_t count;
    const opal_datatype_t *type;
};

struct gpucoll_region gpucoll_even(size_t count, ompi_datatype_t *type, int first, int blocks)
{
    return (struct gpucoll_region){
        .layout = GPUCOLL_EVEN, .first = first, .blocks = blocks, .count = count, .type = type};
}

struct gpucoll_region gpucoll_vector(gpucoll_counts counts, gpucoll_displs displs, ompi_datatype_t *type,
                                     int first, int blocks)
{
    return (struct gpucoll_region){.layout = GPUCOLL_VECTOR,
                                   .first = first,
                                   .blocks = blocks,
                                   .counts = counts,
                                   .displs = displs,
                                   .type = type};
}

struct gpucoll_region gpucoll_bytes(gpucoll_counts counts, gpucoll_displs displs,
                                    ompi_datatype_t *const *types, int blocks)
{
    return (struct gpucoll_region){
        .layout = GPUCOLL_BYTES, .blocks = blocks, .counts = counts, .displs = displs, .types = types};
}

struct gpucoll_region gpucoll_bytes_aint(gpucoll_counts counts, gpucoll_displs_aint displs,
                                         ompi_datatype_t *const *types, int blocks)
{
    return (struct gpucoll_region){.layout = GPUCOLL_BYTES_AINT,
                                   .blocks = blocks,
                                   .counts = counts,
                                   .displs_aint = displs,
                                   .types = types};
}

struct gpucoll_region gpucoll_row(gpucoll_counts counts, ompi_datatype_t *type, int blocks)
{
    return (struct gpucoll_region){.layout = GPUCOLL_ROW, .blocks = blocks, .counts = counts, .type = type};
}

static bool has_one_type(const struct gpucoll_region *region)
{
    return region->type != NULL;
}

static struct block block_at(const struct gpucoll_region *region, int index)
{
    struct block block = {.type = has_one_type(region) ? &region->type->super : &region->types[index]->super};
    ptrdiff_t extent = block.type->ub - block.type->lb;
    block.count = region->layout == GPUCOLL_EVEN ? region->count : gpucoll_count_at(region->counts, index);
    switch (region->layout) {
    case GPUCOLL_EVEN:
        block.offset = (ptrdiff_t)block.count * index * extent;
        break;
    case GPUCOLL_VECTOR:
        block.offset = gpucoll_displ_at(region->displs, index) * extent;
        break;
    case GPUCOLL_BYTES:
        block.offset = gpucoll_displ_at(region->displs, index);
        break;
    case GPUCOLL_BYTES_AINT:
        block.offset = region->displs_aint[index];
        break;
    case GPUCOLL_ROW:
        break; /* of block 0; next_block goes on from there */
    }
    return block;
}

static struct block first_block(const struct gpucoll_region *region)
{
    return region->blocks > 0 ? block_at(region, region->first) : (struct block){0};
}

/* Block `index`, of which `*block` is the one before. */
static void next_block(const struct gpucoll_region *region, int index, struct block *block)
{
    if (index >= region->first + region->blocks) {
        return;
    }
    ptrdiff_t end = block->offset + (ptrdiff_t)block->count * (block->type->ub - block->type->lb);
    *block = block_at(region, index);
    if (region->layout == GPUCOLL_ROW) {
        block->offset = end;
    }
}

static bool is_empty(const struct block *block)
{
    return block->count == 0 || block->type->size == 0;
}

bool gpucoll_region_extent(const struct gpucoll_region *region, struct gpucoll_extent *extent)
{
    *extent = (struct gpucoll_extent){0};
    struct block block = first_block(region);
    for (int i = region->first; i < region->first + region->blocks; next_block(region, ++i, &block)) {
        if (is_empty(&block)) {
            continue;
        }
        /* A resized type may have a negative extent: its elements then go downwards. */
        ptrdiff_t last = (ptrdiff_t)(block.count - 1) * (block.type->ub - block.type->lb);
        ptrdiff_t low = block.offset + block.type->true_lb + (last < 0 ? last : 0);
        ptrdiff_t high = block.offset + block.type->true_ub + (last > 0 ? last : 0);
        if (extent->bytes == 0 || low < extent->low) {
            extent->low = low;
        }
        if (extent->bytes == 0 || high > extent->high) {
            extent->high = high;
        }
        extent->bytes += block.count * block.type->size;
    }
    return extent->bytes > 0;
}

uint64_t gpucoll_region_bytes(const struct gpucoll_region *region, int index)
{
    struct block block = block_at(region, index);
    return block.count * block.type->size;
}

/* Is the block one run of bytes, as its type's flags tell? */
static bool is_run(const struct block *block)
{
    const opal_datatype_t *type = block->type;
    return (type->flags & OPAL_DATATYPE_FLAG_CONTIGUOUS) &&
           type->true_ub - type->true_lb == (ptrdiff_t)type->size &&
           (block->count == 1 || type->ub - type->lb == (ptrdiff_t)type->size);
}

static bool take_block(const struct block *block, bool padded, struct gpucoll_block *out,
                       struct gpucoll_layout **layout)
{
    const opal_datatype_t *type = block->type;
    *out = (struct gpucoll_block){.offset = block->offset};
    *layout = NULL;
    if (is_empty(block)) {
        return true;
    }
    out->bytes = block->count * (padded ? (size_t)(type->ub - type->lb) : type->size);
    if (padded) {
        return true;
    }
    if (is_run(block)) {
        out->offset += type->true_lb;
        return true;
    }
    struct gpucoll_layout *found = gpucoll_layout_of((ompi_datatype_t *)type);
    if (found != NULL && gpucoll_layout_is_run(found, block->count)) {
        out->offset += found->first;
        gpucoll_layout_release(found);
        return true;
    }
    *layout = found;
    return found != NULL;
}

bool gpucoll_region_blocks(const struct gpucoll_region *region, bool padded, struct gpucoll_block *blocks,
                           struct gpucoll_layout **layouts)
{
    bool taken = true;
    struct block block = first_block(region);
    for (int i = 0; i < region->blocks; next_block(region, region->first + ++i, &block)) {
        taken &= take_block(&block, padded, &blocks[i], &layouts[i]);
    }
    return taken;
}

void gpucoll_region_describe(const struct gpucoll_region *region, int index,
                             struct gpucoll_layout_builder *builder)
{
    const struct block block = block_at(region, index);
    if (is_empty(&block)) {
        return;
    }
    if (is_run(&block)) {
        gpucoll_layout_add_run(builder, block.offset + block.type->true_lb, block.count * block.type->size);
    } else {
        gpucoll_layout_describe((const ompi_datatype_t *)block.type, block.offset, block.count, builder);
    }
}

/* Joins runs that touch, so that the callback sees as few as possible. */
struct joiner {
    gpucoll_run_fn run;
    void *arg;
    ptrdiff_t offset;
    size_t bytes;
};

static int join(struct joiner *joiner, ptrdiff_t offset, size_t bytes)
{
    if (joiner->bytes > 0 && joiner->offset + (ptrdiff_t)joiner->bytes == offset) {
        joiner->bytes += bytes;
        return OMPI_SUCCESS;
    }
    int rc = joiner->bytes > 0 ? joiner->run(joiner->arg, joiner->offset, joiner->bytes) : OMPI_SUCCESS;
    joiner->offset = offset;
    joiner->bytes = bytes;
    return rc;
}

static int walk_convertor(const struct block *block, struct joiner *joiner)
{
    opal_convertor_t convertor;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    /* Any address will do: the convertor adds to it and does not look there. It must not be NULL, and stays
     * clear of zero for types with negative displacements. */
    char *const origin = (char *)((uintptr_t)1 << 62);
    int rc = opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, block->type, block->count,
                                                      origin, 0, &convertor);
    bool done = false;
    while (rc == OMPI_SUCCESS && !done) {
        struct iovec iov[IOV_BATCH];
        uint32_t pieces = IOV_BATCH;
        size_t bytes = SIZE_MAX;
        done = opal_convertor_raw(&convertor, iov, &pieces, &bytes) != 0;
        for (uint32_t i = 0; i < pieces && rc == OMPI_SUCCESS; i++) {
            if (iov[i].iov_len > 0) {
                rc = join(joiner, block->offset + ((char *)iov[i].iov_base - origin), iov[i].iov_len);
            }
        }
    }
    OBJ_DESTRUCT(&convertor);
    return rc;
}

static int walk_block(const struct block *block, struct joiner *joiner)
{
    const opal_datatype_t *type = block->type;
    if (is_empty(block)) {
        return OMPI_SUCCESS;
    }
    if (!(type->flags & OPAL_DATATYPE_FLAG_CONTIGUOUS) ||
        type->true_ub - type->true_lb != (ptrdiff_t)type->size) {
        return walk_convertor(block, joiner);
    }
    ptrdiff_t extent = type->ub - type->lb;
    if (extent == (ptrdiff_t)type->size) {
        return join(joiner, block->offset + type->true_lb, block->count * type->size);
    }
    int rc = OMPI_SUCCESS;
    for (size_t i = 0; i < block->count && rc == OMPI_SUCCESS; i++) {
        rc = join(joiner, block->offset + type->true_lb + (ptrdiff_t)i * extent, type->size);
    }
    return rc;
}

/* What has been joined last. */
static int finish(struct joiner *joiner)
{
    const size_t bytes = joiner->bytes;
    joiner->bytes = 0;
    return bytes > 0 ? joiner->run(joiner->arg, joiner->offset, bytes) : OMPI_SUCCESS;
}

int gpucoll_region_runs(const struct gpucoll_region *region, gpucoll_run_fn run, void *arg)
{
    struct joiner joiner = {.run = run, .arg = arg};
    int rc = OMPI_SUCCESS;
    struct block block = first_block(region);
    const int end = region->first + region->blocks;
    for (int i = region->first; i < end && rc == OMPI_SUCCESS; next_block(region, ++i, &block)) {
        rc = walk_block(&block, &joiner);
    }
    return rc == OMPI_SUCCESS ? finish(&joiner) : rc;
}

/* Runs of equal length at equal distances become one set of rows. */
struct weaver {
    gpucoll_rows_fn take;
    void *arg;
    struct gpucoll_rows set;
};

static int flush(struct weaver *weaver)
{
    struct gpucoll_rows set = weaver->set;
    weaver->set.rows = 0;
    if (set.stride < 0) { /* from the last upwards */
        set.offset += (ptrdiff_t)(set.rows - 1) * set.stride;
        set.stride = -set.stride;
    }
    if (set.rows > 1 && set.stride == (ptrdiff_t)set.bytes) {
        set = (struct gpucoll_rows){set.offset, set.bytes * set.rows, 0, 1};
    }
    return set.rows > 0 ? weaver->take(weaver->arg, &set) : OMPI_SUCCESS;
}

static int weave(void *arg, ptrdiff_t offset, size_t bytes)
{
    struct weaver *weaver = arg;
    struct gpucoll_rows *set = &weaver->set;
    const ptrdiff_t distance = offset - (set->offset + (ptrdiff_t)(set->rows - 1) * set->stride);
    if (set->rows > 0 && set->bytes == bytes && (set->rows == 1 || distance == set->stride)) {
        set->stride = distance;
        set->rows++;
        return OMPI_SUCCESS;
    }
    int rc = flush(weaver);
    *set = (struct gpucoll_rows){offset, bytes, 0, 1};
    return rc;
}

static int count_run(void *arg, ptrdiff_t offset, size_t bytes)
{
    (void)offset;
    (void)bytes;
    ++*(size_t *)arg;
    return OMPI_SUCCESS;
}

static int count_set(void *arg, const struct gpucoll_rows *set)
{
    (void)set;
    ++*(size_t *)arg;
    return OMPI_SUCCESS;
}

static int block_runs(const struct block *block, gpucoll_run_fn run, void *arg)
{
    struct joiner joiner = {.run = run, .arg = arg};
    int rc = walk_block(block, &joiner);
    return rc == OMPI_SUCCESS ? finish(&joiner) : rc;
}

/* Are there fewer sets if each holds one run of all elements than if each holds neighbouring runs? */
static bool spreads(const struct block *block)
{
    const struct block one = {block->offset, 1, block->type};
    size_t runs = 0;
    size_t sets = 0;
    struct weaver weaver = {.take = count_set, .arg = &sets};
    if (block->count <= 1 || is_run(block) || block_runs(&one, count_run, &runs) != OMPI_SUCCESS ||
        block_runs(&one, weave, &weaver) != OMPI_SUCCESS || flush(&weaver) != OMPI_SUCCESS) {
        return false;
    }
    return runs < sets * block->count;
}

/* Hands on each run of a block's first element as a set: that run of all elements. */
struct spread {
    struct weaver *weaver;
    ptrdiff_t stride;
    size_t rows;
};

static int spread_run(void *arg, ptrdiff_t offset, size_t bytes)
{
    const struct spread *spread = arg;
    spread->weaver->set = (struct gpucoll_rows){offset, bytes, spread->stride, spread->rows};
    return flush(spread->weaver);
}

static int spread_block(const struct block *block, struct joiner *joiner, struct weaver *weaver)
{
    const struct block one = {block->offset, 1, block->type};
    struct spread spread = {weaver, block->type->ub - block->type->lb, block->count};
    int rc = finish(joiner);
    rc = rc == OMPI_SUCCESS ? flush(weaver) : rc;
    return rc == OMPI_SUCCESS ? block_runs(&one, spread_run, &spread) : rc;
}

int gpucoll_region_rows(const struct gpucoll_region *region, gpucoll_rows_fn take, void *arg)
{
    struct weaver weaver = {.take = take, .arg = arg};
    struct joiner joiner = {.run = weave, .arg = &weaver};
    int rc = OMPI_SUCCESS;
    struct block block = first_block(region);
    const int end = region->first + region->blocks;
    for (int i = region->first; i < end && rc == OMPI_SUCCESS; next_block(region, ++i, &block)) {
        rc = !is_empty(&block) && spreads(&block) ? spread_block(&block, &joiner, &weaver)
                                                  : walk_block(&block, &joiner);
    }
    rc = rc == OMPI_SUCCESS ? finish(&joiner) : rc;
    return rc == OMPI_SUCCESS ? flush(&weaver) : rc;
}

static void retain(ompi_datatype_t *type)
{
    if (!ompi_datatype_is_predefined(type)) {
        OBJ_RETAIN(type);
    }
}

static void release(ompi_datatype_t *type)
{
    if (!ompi_datatype_is_predefined(type)) {
        OBJ_RELEASE(type);
    }
}

/* Arrays lie in one allocation, widest elements first. Those that the layout does not have stay unused. */
static bool keep_arrays(struct gpucoll_region *region)
{
    int blocks = region->first + region->blocks;
    char *kept = malloc((size_t)blocks * (sizeof(ptrdiff_t) + sizeof(ompi_datatype_t *) +
                                          sizeof(gpucoll_count) + sizeof(gpucoll_displ)));
    if (kept == NULL) {
        return false;
    }
    ptrdiff_t *displs_aint = (ptrdiff_t *)kept;
    ompi_datatype_t **types = (ompi_datatype_t **)(displs_aint + blocks);
    gpucoll_count *counts = (gpucoll_count *)(types + blocks);
    gpucoll_displ *displs = (gpucoll_displ *)(counts + blocks);
    for (int i = 0; i < blocks; i++) {
        counts[i] = (gpucoll_count)gpucoll_count_at(region->counts, i);
        if (region->layout == GPUCOLL_BYTES_AINT) {
            displs_aint[i] = region->displs_aint[i];
        } else if (region->layout != GPUCOLL_ROW) {
            displs[i] = (gpucoll_displ)gpucoll_displ_at(region->displs, i);
        }
        if (!has_one_type(region)) {
            types[i] = region->types[i];
            retain(types[i]);
        }
    }
    region->counts = gpucoll_counts_of(counts);
    region->displs = gpucoll_displs_of(displs);
    region->displs_aint = displs_aint;
    region->types = has_one_type(region) ? NULL : types;
    region->kept = kept;
    return true;
}

bool gpucoll_region_keep(struct gpucoll_region *region)
{
    if (region->blocks == 0) {
        return true;
    }
    if (region->layout != GPUCOLL_EVEN && !keep_arrays(region)) {
        return false;
    }
    if (region->type != NULL) {
        retain(region->type);
        if (region->kept == NULL) {
            region->kept = region->type;
        }
    }
    return true;
}

void gpucoll_region_drop(struct gpucoll_region *region)
{
    if (region->kept == NULL) {
        return;
    }
    if (region->types != NULL) {
        for (int i = 0; i < region->first + region->blocks; i++) {
            release(region->types[i]);
        }
    }
    if (region->type != NULL) {
        release(region->type);
    }
    if (region->kept != (void *)region->type) {
        free(region->kept);
    }
    region->kept = NULL;
}
