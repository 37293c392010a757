#include "kernels/image.h"

/* In fatbins.S. */
extern const char gpucoll_image_integer[];
extern const char gpucoll_image_logical[];
extern const char gpucoll_image_float[];
extern const char gpucoll_image_pair[];

static const void *const images[GPUCOLL_IMAGE_COUNT] = {
    [GPUCOLL_IMAGE_INTEGER] = gpucoll_image_integer,
    [GPUCOLL_IMAGE_LOGICAL] = gpucoll_image_logical,
    [GPUCOLL_IMAGE_FLOAT] = gpucoll_image_float,
    [GPUCOLL_IMAGE_PAIR] = gpucoll_image_pair,
};

struct row {
    enum gpucoll_image image;
    const char *entry[GPUCOLL_KERNEL_COUNT];
};

#define ROW(functor, file)                                                                                   \
    [GPUCOLL_FN_##functor] = {GPUCOLL_IMAGE_##file,                                                          \
                              {[GPUCOLL_KERNEL_ONESHOT] = "gpucoll_lines_" #functor,                         \
                               [GPUCOLL_KERNEL_TWOSHOT_LL128] = "gpucoll_lines_" #functor,                   \
                               [GPUCOLL_KERNEL_TWOSHOT] = "gpucoll_twoshot_" #functor}},
#define ROW_INTEGER(name, op, element) ROW(name, INTEGER)
#define ROW_LOGICAL(name, op, element) ROW(name, LOGICAL)
#define ROW_FLOAT(name, op, element) ROW(name, FLOAT)
#define ROW_PAIR(name, op, element) ROW(name, PAIR)

static const struct row rows[GPUCOLL_FUNCTOR_COUNT] = {
    GPUCOLL_FUNCTORS_INTEGER(ROW_INTEGER) GPUCOLL_FUNCTORS_LOGICAL(ROW_LOGICAL)
        GPUCOLL_FUNCTORS_FLOAT(ROW_FLOAT) GPUCOLL_FUNCTORS_PAIR(ROW_PAIR)};

const void *gpucoll_image_data(enum gpucoll_image image)
{
    return images[image];
}

enum gpucoll_image gpucoll_image_of(int functor)
{
    return rows[functor].image;
}

const char *gpucoll_kernel_entry(enum gpucoll_kernel kernel, int functor)
{
    return rows[functor].entry[kernel];
}
