#include "test/mpi/values.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test/mpi/support.h"

/* The widest arithmetic at hand: floating-point results are checked in it. */
#if defined(__SIZEOF_FLOAT128__) && LDBL_MANT_DIG < 113
typedef __float128 wide;
#else
typedef long double wide;
#endif

#ifdef __FLT16_MANT_DIG__
typedef _Float16 half;
#else
typedef float half; /* never met: types.c then has no 16-bit floats */
#endif

struct format_row {
    size_t bytes;
    size_t used; /* x87's long double stands in 16 bytes and uses 10 */
    bool is_float;
    bool is_signed;
    int digits; /* of the mantissa */
};

static const struct format_row formats[TEST_FORMATS] = {
    [TEST_I8] = {1, 1, false, true, 0},
    [TEST_I16] = {2, 2, false, true, 0},
    [TEST_I32] = {4, 4, false, true, 0},
    [TEST_I64] = {8, 8, false, true, 0},
    [TEST_U8] = {1, 1, false, false, 0},
    [TEST_U16] = {2, 2, false, false, 0},
    [TEST_U32] = {4, 4, false, false, 0},
    [TEST_U64] = {8, 8, false, false, 0},
    [TEST_F16] = {2, 2, true, true, 11},
    [TEST_F32] = {4, 4, true, true, FLT_MANT_DIG},
    [TEST_F64] = {8, 8, true, true, DBL_MANT_DIG},
    [TEST_FLONG] = {sizeof(long double), LDBL_MANT_DIG == 64 ? 10 : sizeof(long double), true, true,
                    LDBL_MANT_DIG},
};

static uint64_t load_integer(enum test_format format, const void *from)
{
    const struct format_row *row = &formats[format];
    uint64_t bits = 0;
    int shift = 64 - 8 * (int)row->bytes;
    memcpy(&bits, from, row->bytes);
    return row->is_signed ? (uint64_t)((int64_t)(bits << shift) >> shift) : bits;
}

static void store_integer(enum test_format format, void *to, uint64_t bits)
{
    memcpy(to, &bits, formats[format].bytes);
}

static wide load_float(enum test_format format, const void *from)
{
    half f16;
    float f32;
    double f64;
    long double flong;

    switch (format) {
    case TEST_F16:
        memcpy(&f16, from, sizeof f16);
        return f16;
    case TEST_F32:
        memcpy(&f32, from, sizeof f32);
        return f32;
    case TEST_F64:
        memcpy(&f64, from, sizeof f64);
        return f64;
    default:
        memcpy(&flong, from, sizeof flong);
        return flong;
    }
}

static void store_float(enum test_format format, void *to, wide value)
{
    half f16 = (half)value;
    float f32 = (float)value;
    double f64 = (double)value;
    long double flong = (long double)value;

    switch (format) {
    case TEST_F16:
        memcpy(to, &f16, sizeof f16);
        break;
    case TEST_F32:
        memcpy(to, &f32, sizeof f32);
        break;
    case TEST_F64:
        memcpy(to, &f64, sizeof f64);
        break;
    default:
        memset(to, 0, sizeof flong);
        memcpy(to, &flong, formats[format].used);
        break;
    }
}

bool test_repr_is_native(const struct test_repr *repr)
{
    const bool half_complex = repr->shape == TEST_COMPLEX && repr->format[0] == TEST_F16;
    return !half_complex && repr->format[0] != TEST_FLONG && repr->format[1] != TEST_FLONG;
}

bool test_repr_is_float(const struct test_repr *repr)
{
    return formats[repr->format[0]].is_float;
}

void test_repr_mask(const struct test_repr *repr, unsigned char *mask)
{
    memset(mask, 0, repr->size);
    memset(mask, 1, formats[repr->format[0]].used);
    if (repr->shape == TEST_COMPLEX || repr->shape == TEST_PAIR)
        memset(mask + repr->second, 1, formats[repr->format[1]].used);
}

static uint64_t bits_of(const struct test_draw *draw, int rank, uint64_t index)
{
    return test_mix3(draw->seed, index, (uint64_t)rank);
}

/* What an index has in common on all ranks. */
static uint64_t column_of(const struct test_draw *draw, uint64_t index)
{
    return test_mix3(draw->seed, ~index, 0x5eed);
}

/* A product has two interesting factors an index, so that it stays in range: bit 0 and bit 1 say which fall
 * to this rank. */
static unsigned special_factors(const struct test_draw *draw, int rank, uint64_t index)
{
    uint64_t column = column_of(draw, index);
    unsigned ranks = (unsigned)draw->ranks;
    return (column % ranks == (unsigned)rank ? 1u : 0u) |
           ((column >> 32) % ranks == (unsigned)rank ? 2u : 0u);
}

/* Logical operands: at some indices one rank only is false, at some one only is true, elsewhere they are
 * mixed. */
static bool truth(const struct test_draw *draw, int rank, uint64_t index)
{
    uint64_t column = column_of(draw, index);
    bool chosen = (column >> 32) % (unsigned)draw->ranks == (unsigned)rank;
    switch (column % 4) {
    case 0:
        return !chosen;
    case 1:
        return chosen;
    case 2:
        return true;
    default:
        return bits_of(draw, rank, index) >> 63;
    }
}

/* Signed sums and products stay in range: overflow would be the program's own error. */
static uint64_t make_integer(const struct test_draw *draw, int rank, uint64_t index)
{
    const struct format_row *row = &formats[draw->repr->format[0]];
    uint64_t bits = bits_of(draw, rank, index);
    uint64_t more = test_mix(bits);
    int width = 8 * (int)row->bytes;
    unsigned special = special_factors(draw, rank, index);
    uint64_t below = (uint64_t)1 << (width / 2 - 1);

    switch (draw->op) {
    case TEST_SUM:
        if (row->is_signed)
            return (uint64_t)(((int64_t)bits >> (64 - width)) / draw->ranks);
        /* Open MPI's AVX code saturates sums of short unsigned integers: no overflow there. */
        return width > 16 ? bits : (bits >> (64 - width)) / (unsigned)draw->ranks;
    case TEST_PROD:
        if (!row->is_signed)
            return bits | 1;
        below = ((special & 1) != 0 ? bits % below | 1 : 1) * ((special & 2) != 0 ? more % below | 1 : 1);
        return more >> 63 != 0 ? -below : below;
    case TEST_LAND:
    case TEST_LOR:
    case TEST_LXOR:
        /* One bit of the word is set: an implementation that looks at a part of it only is found out. */
        return truth(draw, rank, index) ? (uint64_t)1 << bits % (unsigned)width : 0;
    case TEST_BAND:
        return bits | more;
    case TEST_BOR:
        return bits & more;
    default:
        return draw->repr->positive && !draw->native ? bits >> 1 : bits;
    }
}

/* From -1 to 1. */
static wide unit(uint64_t bits)
{
    return (wide)(int64_t)bits / 9223372036854775808.0;
}

static wide scaled(wide value, int exponent)
{
    return value * ldexp(1.0, exponent);
}

static wide make_float(const struct test_draw *draw, int rank, uint64_t index, int part)
{
    uint64_t bits = test_mix2(bits_of(draw, rank, index), (uint64_t)part);
    int exponent = (int)(test_mix(bits) % (draw->repr->format[0] == TEST_F16 ? 4 : 24));
    int sign = (bits & 1) != 0 ? 1 : -1;
    unsigned special = special_factors(draw, rank, index);

    switch (draw->op) {
    case TEST_SUM:
        return draw->exact ? (wide)((int)(bits % 101) - 50) : scaled(unit(bits), -exponent);
    case TEST_PROD:
        if (!draw->exact)
            return sign * (0.75 + 0.25 * unit(test_mix(bits)));
        /* 1, or i in complex arithmetic: the one part is chosen by the index, the other is zero. */
        if (draw->repr->shape == TEST_COMPLEX && (int)(bits_of(draw, rank, index) >> 40 & 1) != part)
            return 0;
        return sign * ((special & 1) != 0 ? 3 : 1) * ((special & 2) != 0 ? 0.5 : 1);
    default:
        if (!draw->exact && bits % 61 == 0)
            return sign * (wide)INFINITY;
        return sign * scaled(1 + (wide)(bits >> 54), exponent - 12);
    }
}

static void make_pair(const struct test_draw *draw, int rank, uint64_t index, unsigned char *value)
{
    const struct test_repr *repr = draw->repr;
    uint64_t bits = bits_of(draw, rank, index);
    int number = (int)(bits % 7) - 3; /* few values: ties are common, then the smaller location must win */
    int location = (int)(bits >> 32 & 1023);

    if (formats[repr->format[0]].is_float)
        store_float(repr->format[0], value, number * 1.25);
    else
        store_integer(repr->format[0], value, (uint64_t)(int64_t)number);
    if (formats[repr->format[1]].is_float)
        store_float(repr->format[1], value + repr->second, location);
    else
        store_integer(repr->format[1], value + repr->second, (uint64_t)location);
}

void test_value_make(const struct test_draw *draw, int rank, uint64_t index, void *value)
{
    const struct test_repr *repr = draw->repr;

    if (formats[repr->format[0]].used < formats[repr->format[0]].bytes || repr->shape == TEST_PAIR)
        memset(value, 0, repr->size);
    if (repr->shape == TEST_PAIR) {
        make_pair(draw, rank, index, value);
    } else if (repr->shape == TEST_LOGICAL) {
        store_integer(repr->format[0], value, truth(draw, rank, index));
    } else if (!formats[repr->format[0]].is_float) {
        store_integer(repr->format[0], value, make_integer(draw, rank, index));
    } else {
        store_float(repr->format[0], value, make_float(draw, rank, index, 0));
        if (repr->shape == TEST_COMPLEX)
            store_float(repr->format[1], (char *)value + repr->second, make_float(draw, rank, index, 1));
    }
}

static uint64_t reduce_integer(enum test_op op, bool is_signed, uint64_t a, uint64_t b)
{
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case TEST_SUM:
        return a + b;
    case TEST_PROD:
        return a * b;
    case TEST_MAX:
        return less ? b : a;
    case TEST_MIN:
        return less ? a : b;
    case TEST_LAND:
        return a != 0 && b != 0;
    case TEST_LOR:
        return a != 0 || b != 0;
    case TEST_LXOR:
        return (a != 0) != (b != 0);
    case TEST_BAND:
        return a & b;
    case TEST_BOR:
        return a | b;
    default:
        return a ^ b;
    }
}

/* a = a op b; complex numbers have two parts, of real ones the second is zero. */
static void reduce_float(enum test_op op, wide *a, const wide *b)
{
    wide real;
    switch (op) {
    case TEST_SUM:
        a[0] += b[0];
        a[1] += b[1];
        break;
    case TEST_PROD:
        real = a[0] * b[0] - a[1] * b[1];
        a[1] = a[0] * b[1] + a[1] * b[0];
        a[0] = real;
        break;
    case TEST_MAX:
        a[0] = a[0] < b[0] ? b[0] : a[0];
        break;
    default:
        a[0] = b[0] < a[0] ? b[0] : a[0];
        break;
    }
}

static wide number_at(enum test_format format, const void *from)
{
    if (formats[format].is_float)
        return load_float(format, from);
    return formats[format].is_signed ? (wide)(int64_t)load_integer(format, from)
                                     : (wide)load_integer(format, from);
}

static void reduce_pair(enum test_op op, const struct test_repr *repr, char *left, const char *right)
{
    wide a = number_at(repr->format[0], left);
    wide b = number_at(repr->format[0], right);
    wide location_a = number_at(repr->format[1], left + repr->second);
    wide location_b = number_at(repr->format[1], right + repr->second);
    bool take = op == TEST_MAXLOC ? b > a : b < a;

    if (take || (a == b && location_b < location_a))
        memcpy(left, right, repr->size);
}

static void load_parts(const struct test_repr *repr, const void *value, wide *parts)
{
    parts[0] = load_float(repr->format[0], value);
    parts[1] =
        repr->shape == TEST_COMPLEX ? load_float(repr->format[1], (const char *)value + repr->second) : 0;
}

void test_value_reduce(enum test_op op, const struct test_repr *repr, void *left, const void *right)
{
    enum test_format format = repr->format[0];
    wide a[2], b[2];

    if (repr->shape == TEST_PAIR) {
        reduce_pair(op, repr, left, right);
    } else if (formats[format].is_float) {
        load_parts(repr, left, a);
        load_parts(repr, right, b);
        reduce_float(op, a, b);
        store_float(format, left, a[0]);
        if (repr->shape == TEST_COMPLEX)
            store_float(repr->format[1], (char *)left + repr->second, a[1]);
    } else {
        store_integer(format, left,
                      reduce_integer(op, formats[format].is_signed, load_integer(format, left),
                                     load_integer(format, right)));
    }
}

static wide magnitude(wide value)
{
    return value < 0 ? -value : value;
}

/* Any order of `ranks` operands stays within (ranks-1) roundings of the sum of magnitudes, or, for products,
 * of the product of magnitudes; a complex product rounds up to four times and adds two terms. Twice that is
 * allowed. */
static bool float_near(const struct test_draw *draw, const char *inputs, const void *got)
{
    const struct test_repr *repr = draw->repr;
    wide exact[2], scale[2], next[2], seen[2], bound;

    load_parts(repr, inputs, exact);
    scale[0] = magnitude(exact[0]) + (draw->op == TEST_PROD ? magnitude(exact[1]) : 0);
    scale[1] = draw->op == TEST_PROD ? scale[0] : magnitude(exact[1]);
    for (int rank = 1; rank < draw->ranks; rank++) {
        load_parts(repr, inputs + (size_t)rank * repr->size, next);
        reduce_float(draw->op, exact, next);
        for (int part = 0; part < 2; part++) {
            if (draw->op == TEST_PROD)
                scale[part] *= magnitude(next[0]) + magnitude(next[1]);
            else
                scale[part] += magnitude(next[part]);
        }
    }
    load_parts(repr, got, seen);
    for (int part = 0; part < 2; part++) {
        bound = scaled(scale[part], -formats[repr->format[0]].digits) * 2 * (draw->ranks - 1);
        if (repr->shape == TEST_COMPLEX && draw->op == TEST_PROD)
            bound *= 2;
        if (!(magnitude(seen[part] - exact[part]) <= bound))
            return false;
    }
    return true;
}

bool test_value_right(const struct test_draw *draw, const void *inputs, const void *got)
{
    const struct test_repr *repr = draw->repr;
    unsigned char expected[64], mask[64];

    if (test_repr_is_float(repr) && (draw->op == TEST_SUM || draw->op == TEST_PROD))
        return float_near(draw, inputs, got);
    memcpy(expected, inputs, repr->size);
    for (int rank = 1; rank < draw->ranks; rank++)
        test_value_reduce(draw->op, repr, expected, (const char *)inputs + (size_t)rank * repr->size);
    test_repr_mask(repr, mask);
    for (size_t i = 0; i < repr->size; i++)
        if (mask[i] != 0 && expected[i] != ((const unsigned char *)got)[i])
            return false;
    return true;
}

static void number_text(enum test_format format, const void *value, char *text, size_t bytes)
{
    if (formats[format].is_float)
        snprintf(text, bytes, "%.20Lg", (long double)load_float(format, value));
    else if (formats[format].is_signed)
        snprintf(text, bytes, "%lld", (long long)load_integer(format, value));
    else
        snprintf(text, bytes, "%llu", (unsigned long long)load_integer(format, value));
}

void test_value_text(const struct test_repr *repr, const void *value, char *text, size_t bytes)
{
    char first[50], second[50];
    number_text(repr->format[0], value, first, sizeof first);
    if (repr->shape != TEST_COMPLEX && repr->shape != TEST_PAIR) {
        snprintf(text, bytes, "%s", first);
        return;
    }
    number_text(repr->format[1], (const char *)value + repr->second, second, sizeof second);
    snprintf(text, bytes, "(%s, %s)", first, second);
}
