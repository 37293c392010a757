#include "test/gpu/elements.h"
#include <string.h>
#include "kernels/functors.h"

enum kind {
    KIND_bits, /* integers: anything */
    KIND_flag, /* integers as truth values: often zero */
    KIND_f16,
    KIND_bf16,
    KIND_f32,
    KIND_f64,
    KIND_p_i16i32,
    KIND_p_i32i32,
    KIND_p_i64i32,
    KIND_p_f32i32,
    KIND_p_f64i32,
    KIND_p_f32f32,
    KIND_p_f64f64
};
enum { KIND_c64 = KIND_f32, KIND_c128 = KIND_f64 };

#define ROW_BITS(name, op, element, ...) [GPUCOLL_FN_##name] = KIND_bits,
#define ROW_FLAG(name, op, element, ...) [GPUCOLL_FN_##name] = KIND_flag,
#define ROW_OWN(name, op, element, ...) [GPUCOLL_FN_##name] = KIND_##element,
static const int kinds[GPUCOLL_FUNCTOR_COUNT] = {GPUCOLL_FUNCTORS_INTEGER(ROW_BITS) GPUCOLL_FUNCTORS_LOGICAL(
    ROW_FLAG) GPUCOLL_FUNCTORS_FLOAT(ROW_OWN) GPUCOLL_FUNCTORS_PAIR(ROW_OWN)};

/* splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
uint64_t next_random(uint64_t *state)
{
    uint64_t word = *state += 0x9E3779B97F4A7C15u;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9u;
    word = (word ^ word >> 27) * 0x94D049BB133111EBu;
    return word ^ word >> 31;
}

/* Floating-point numbers of either sign between 1/4 and 4, by their bits. */
static uint64_t real_bits(uint64_t random, int exponent_bits, int mantissa_bits)
{
    uint64_t mantissa = random & (((uint64_t)1 << mantissa_bits) - 1);
    uint64_t bias = ((uint64_t)1 << (exponent_bits - 1)) - 1;
    uint64_t exponent = bias - 2 + (random >> 60) % 4;
    uint64_t sign = random >> 59 & 1;
    return sign << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa;
}

/* One of three values, so that ranks tie; padding (what of `bytes` the parts leave) keeps its random bits. */
static void pair(unsigned char *to, size_t bytes, size_t value_bytes, char value, size_t location_at,
                 char location, uint64_t random)
{
    int64_t small = (int64_t)(random % 3) - 1;
    int32_t place = (int32_t)(random >> 32 & 0xffff);
    float f = (float)small;
    double d = (double)small;
    memset(to, (int)(random >> 24 & 0xff), bytes);
    memcpy(to, value == 'i' ? (void *)&small : value_bytes == 4 ? (void *)&f : (void *)&d, value_bytes);
    f = (float)place;
    d = (double)place;
    memcpy(to + location_at,
           location == 'i'            ? (void *)&place
           : bytes - location_at == 4 ? (void *)&f
                                      : (void *)&d,
           location == 'i' ? 4 : bytes - location_at);
}

/* One element into `to`; returns its size. */
static size_t element(int kind, unsigned char *to, uint64_t random)
{
    uint64_t word = random;
    switch (kind) {
    case KIND_f16:
        word = real_bits(random, 5, 10);
        memcpy(to, &word, 2);
        return 2;
    case KIND_bf16:
        word = real_bits(random, 8, 7);
        memcpy(to, &word, 2);
        return 2;
    case KIND_f32:
        word = real_bits(random, 8, 23);
        memcpy(to, &word, 4);
        return 4;
    case KIND_f64:
        word = real_bits(random, 11, 52);
        break;
    case KIND_p_i16i32:
        pair(to, 8, 2, 'i', 4, 'i', random);
        return 8;
    case KIND_p_i32i32:
        pair(to, 8, 4, 'i', 4, 'i', random);
        return 8;
    case KIND_p_i64i32:
        pair(to, 16, 8, 'i', 8, 'i', random);
        return 16;
    case KIND_p_f32i32:
        pair(to, 8, 4, 'f', 4, 'i', random);
        return 8;
    case KIND_p_f64i32:
        pair(to, 16, 8, 'f', 8, 'i', random);
        return 16;
    case KIND_p_f32f32:
        pair(to, 8, 4, 'f', 4, 'f', random);
        return 8;
    case KIND_p_f64f64:
        pair(to, 16, 8, 'f', 8, 'f', random);
        return 16;
    case KIND_flag:
        word = random >> 63 ? 0 : random & (random >> 8);
        break;
    default:
        break;
    }
    memcpy(to, &word, 8);
    return 8;
}

void fill_elements(int functor, void *to, size_t bytes, uint64_t *state)
{
    unsigned char *at = to;
    unsigned char one[16];
    while (bytes > 0) {
        size_t size = element(kinds[functor], one, next_random(state));
        size_t now = size < bytes ? size : bytes;
        memcpy(at, one, now);
        at += now;
        bytes -= now;
    }
}
