#include "kernels/image.h"

#include <stdbool.h>

/* In fatbins.S. */
#define IMAGES(F)                                                                                            \
    F(IMAGE_INTEGER, allreduce_integer)                                                                      \
    F(IMAGE_LOGICAL, allreduce_logical)                                                                      \
    F(IMAGE_FLOAT, allreduce_float)                                                                          \
    F(IMAGE_PAIR, allreduce_pair)                                                                            \
    F(IMAGE_EXCHANGE + GPUCOLL_IMAGE_INTEGER, exchange_integer)                                              \
    F(IMAGE_EXCHANGE + GPUCOLL_IMAGE_LOGICAL, exchange_logical)                                              \
    F(IMAGE_EXCHANGE + GPUCOLL_IMAGE_FLOAT, exchange_float)                                                  \
    F(IMAGE_EXCHANGE + GPUCOLL_IMAGE_PAIR, exchange_pair)                                                    \
    F(IMAGE_RELAY + GPUCOLL_IMAGE_INTEGER, relay_integer)                                                    \
    F(IMAGE_RELAY + GPUCOLL_IMAGE_LOGICAL, relay_logical)                                                    \
    F(IMAGE_RELAY + GPUCOLL_IMAGE_FLOAT, relay_float)                                                        \
    F(IMAGE_RELAY + GPUCOLL_IMAGE_PAIR, relay_pair)                                                          \
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

#define ROW(reducer, file)                                                                                   \
    [GPUCOLL_REDUCER_##reducer] = {GPUCOLL_IMAGE_##file,                                                     \
                                   {[GPUCOLL_KERNEL_ONESHOT] = "gpucoll_lines_" #reducer,                    \
                                    [GPUCOLL_KERNEL_SWAP_LL128] = "gpucoll_lines_" #reducer,                 \
                                    [GPUCOLL_KERNEL_TWOSHOT_LL128] = "gpucoll_lines_" #reducer,              \
                                    [GPUCOLL_KERNEL_TWOSHOT] = "gpucoll_twoshot_" #reducer,                  \
                                    [GPUCOLL_KERNEL_MOVE_LL] = "gpucoll_exchange_lines_move",                \
                                    [GPUCOLL_KERNEL_MOVE_LL128] = "gpucoll_exchange_lines_move",             \
                                    [GPUCOLL_KERNEL_MOVE] = "gpucoll_exchange_move",                         \
                                    [GPUCOLL_KERNEL_REDUCE_LL] = "gpucoll_exchange_lines_" #reducer,         \
                                    [GPUCOLL_KERNEL_REDUCE_LL128] = "gpucoll_exchange_lines_" #reducer,      \
                                    [GPUCOLL_KERNEL_REDUCE] = "gpucoll_exchange_" #reducer,                  \
                                    [GPUCOLL_KERNEL_STORE] = "gpucoll_exchange_move",                        \
                                    [GPUCOLL_KERNEL_REDUCE_BULK] = "gpucoll_bulk_" #reducer,                 \
                                    [GPUCOLL_KERNEL_TWOSHOT_DIRECT] = "gpucoll_twoshot_direct_" #reducer,    \
                                    [GPUCOLL_KERNEL_RELAY] = "gpucoll_relay_" #reducer,                      \
                                    [GPUCOLL_KERNEL_REDUCE_BLOCKS] = "gpucoll_blocks_" #reducer,             \
                                    [GPUCOLL_KERNEL_FETCH] = "gpucoll_courier",                              \
                                    [GPUCOLL_KERNEL_DELIVER] = "gpucoll_courier"}},
#define ROW_INTEGER(name, op, element) ROW(name, INTEGER)
#define ROW_LOGICAL(name, op, element) ROW(name, LOGICAL)
#define ROW_FLOAT(name, op, element) ROW(name, FLOAT)
#define ROW_PAIR(name, op, element) ROW(name, PAIR)

static const struct row rows[GPUCOLL_REDUCER_COUNT] = {
    GPUCOLL_REDUCERS_INTEGER(ROW_INTEGER) GPUCOLL_REDUCERS_LOGICAL(ROW_LOGICAL)
        GPUCOLL_REDUCERS_FLOAT(ROW_FLOAT) GPUCOLL_REDUCERS_PAIR(ROW_PAIR)};

struct share {
    unsigned char reducer;
    unsigned char variant;
};

#define SHARE(name, op, element, reducer, variant)                                                           \
    [GPUCOLL_FN_##name] = {GPUCOLL_REDUCER_##reducer, GPUCOLL_VARIANT_##variant},
static const struct share shares[GPUCOLL_FUNCTOR_COUNT] = {GPUCOLL_FUNCTORS(SHARE)};

enum gpucoll_reducer gpucoll_reducer_of(int functor)
{
    return shares[functor].reducer;
}

enum gpucoll_variant gpucoll_variant_of(int functor)
{
    return shares[functor].variant;
}

const void *gpucoll_image_data(enum gpucoll_image image)
{
    return images[image];
}

enum gpucoll_image gpucoll_image_of(enum gpucoll_kernel kernel, int reducer)
{
    if (!gpucoll_kernel_has_functor(kernel)) {
        return GPUCOLL_IMAGE_MOVE;
    }
    enum gpucoll_image group = rows[reducer].image;
    if (kernel == GPUCOLL_KERNEL_RELAY) {
        return GPUCOLL_IMAGE_RELAY + group;
    }
    const bool allreduce = kernel < GPUCOLL_KERNEL_REDUCE_LL || kernel == GPUCOLL_KERNEL_TWOSHOT_DIRECT;
    return allreduce ? group : GPUCOLL_IMAGE_EXCHANGE + group;
}

const char *gpucoll_kernel_entry(enum gpucoll_kernel kernel, int reducer)
{
    return rows[reducer].entry[kernel];
}
