#include "kernels/image.h"

#include <limits.h>
#include <stdbool.h>

/* In fatbins.S. */
#define IMAGES(F)                                                                                            \
    F(IMAGE_INTEGER, allreduce_integer)                                                                      \
    F(IMAGE_FLOAT, allreduce_float)                                                                          \
    F(IMAGE_RARE, allreduce_rare)                                                                            \
    F(IMAGE_EXCHANGE + GPUCOLL_IMAGE_INTEGER, exchange_integer)                                              \
    F(IMAGE_EXCHANGE + GPUCOLL_IMAGE_FLOAT, exchange_float)                                                  \
    F(IMAGE_EXCHANGE + GPUCOLL_IMAGE_RARE, exchange_rare)                                                    \
    F(IMAGE_RELAY + GPUCOLL_IMAGE_INTEGER, relay_integer)                                                    \
    F(IMAGE_RELAY + GPUCOLL_IMAGE_FLOAT, relay_float)                                                        \
    F(IMAGE_RELAY + GPUCOLL_IMAGE_RARE, relay_rare)                                                          \
    F(IMAGE_MOVE, exchange_move)                                                                             \
    F(IMAGE_PACK, pack_layout)

#define DECLARE(index, name) extern const char gpucoll_image_##name[];
IMAGES(DECLARE)

#define IMAGE(index, name) [GPUCOLL_##index] = gpucoll_image_##name,
static const void *const images[GPUCOLL_IMAGE_COUNT] = {IMAGES(IMAGE)};

struct row {
    enum gpucoll_image image;
    const char *entry[GPUCOLL_KERNEL_COUNT];
};

#define ROW(suite, file)                                                                                     \
    [GPUCOLL_REDUCER_##suite] = {GPUCOLL_IMAGE_##file,                                                       \
                                 {[GPUCOLL_KERNEL_ONESHOT] = "gpucoll_lines_" #suite,                        \
                                  [GPUCOLL_KERNEL_ONESHOT_EARLY] = "gpucoll_lines_" #suite,                  \
                                  [GPUCOLL_KERNEL_SWAP_LL128] = "gpucoll_lines_" #suite,                     \
                                  [GPUCOLL_KERNEL_TWOSHOT_LL128] = "gpucoll_lines_" #suite,                  \
                                  [GPUCOLL_KERNEL_TWOSHOT] = "gpucoll_twoshot_" #suite,                      \
                                  [GPUCOLL_KERNEL_MOVE_LL] = "gpucoll_exchange_lines_move",                  \
                                  [GPUCOLL_KERNEL_MOVE_LAYOUTS] = "gpucoll_exchange_lines_laid",             \
                                  [GPUCOLL_KERNEL_MOVE_LL128] = "gpucoll_exchange_lines_move",               \
                                  [GPUCOLL_KERNEL_MOVE] = "gpucoll_exchange_move",                           \
                                  [GPUCOLL_KERNEL_REDUCE_LL] = "gpucoll_exchange_lines_" #suite,             \
                                  [GPUCOLL_KERNEL_REDUCE_LL128] = "gpucoll_exchange_lines_" #suite,          \
                                  [GPUCOLL_KERNEL_REDUCE] = "gpucoll_exchange_" #suite,                      \
                                  [GPUCOLL_KERNEL_STORE] = "gpucoll_store",                                  \
                                  [GPUCOLL_KERNEL_SPREAD] = "gpucoll_store",                                 \
                                  [GPUCOLL_KERNEL_REDUCE_BULK] = "gpucoll_bulk_" #suite,                     \
                                  [GPUCOLL_KERNEL_TWOSHOT_DIRECT] = "gpucoll_twoshot_direct_" #suite,        \
                                  [GPUCOLL_KERNEL_RELAY] = "gpucoll_relay_" #suite,                          \
                                  [GPUCOLL_KERNEL_REDUCE_BLOCKS] = "gpucoll_blocks_" #suite,                 \
                                  [GPUCOLL_KERNEL_FETCH] = "gpucoll_courier",                                \
                                  [GPUCOLL_KERNEL_DELIVER] = "gpucoll_courier"}},
#define ROW_INTEGER(name, op, element) ROW(name, INTEGER)
#define ROW_FLOAT(name, op, element) ROW(name, FLOAT)

static const struct row rows[GPUCOLL_SUITE_COUNT] = {GPUCOLL_REDUCERS_INTEGER(ROW_INTEGER)
                                                         GPUCOLL_REDUCERS_FLOAT(ROW_FLOAT) ROW(rare, RARE)};

struct share {
    unsigned char reducer;
    unsigned char variant;
};

#define SHARE(name, op, element, reducer, variant)                                                           \
    [GPUCOLL_FN_##name] = {GPUCOLL_REDUCER_##reducer, GPUCOLL_VARIANT_##variant},
static const struct share shares[GPUCOLL_FUNCTOR_COUNT] = {GPUCOLL_FUNCTORS(SHARE)};

_Static_assert((GPUCOLL_REDUCER_COUNT - GPUCOLL_REDUCER_rare) << GPUCOLL_VARIANT_BITS <= UCHAR_MAX,
               "a variant is a byte of a kernel's arguments");

int gpucoll_suite_of(int functor)
{
    const int reducer = shares[functor].reducer;
    return reducer < GPUCOLL_REDUCER_rare ? reducer : GPUCOLL_REDUCER_rare;
}

unsigned gpucoll_variant_of(int functor)
{
    const struct share *share = &shares[functor];
    const int which = share->reducer - gpucoll_suite_of(functor); /* of the rare ones; else 0 */
    return (unsigned)which << GPUCOLL_VARIANT_BITS | share->variant;
}

const void *gpucoll_image_data(enum gpucoll_image image)
{
    return images[image];
}

enum gpucoll_image gpucoll_image_of(enum gpucoll_kernel kernel, int suite)
{
    if (!gpucoll_kernel_has_functor(kernel)) {
        return GPUCOLL_IMAGE_MOVE;
    }
    enum gpucoll_image group = rows[suite].image;
    if (kernel == GPUCOLL_KERNEL_RELAY) {
        return GPUCOLL_IMAGE_RELAY + group;
    }
    const bool allreduce = kernel < GPUCOLL_KERNEL_REDUCE_LL || kernel == GPUCOLL_KERNEL_TWOSHOT_DIRECT;
    return allreduce ? group : GPUCOLL_IMAGE_EXCHANGE + group;
}

const char *gpucoll_kernel_entry(enum gpucoll_kernel kernel, int suite)
{
    return rows[suite].entry[kernel];
}
