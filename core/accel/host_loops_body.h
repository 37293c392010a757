/*
 * The loops of core/accel/host_loops.h, one for each functor, as the including file's target compiles them: it defines LOOPS, the name of
 * the table.
 *
 * Results are those of the device kernels: 16-bit floats are computed in single precision and rounded to
 * nearest even, NaN becomes 0x7fff as CUDA's conversions have it; complex products are rounded after each
 * multiplication and addition; maximum is `a > b ? a : b` and minimum `a < b ? a : b`, so that a NaN in `b`
 * is kept and one in `a` is dropped. A pair takes every byte, padding too, from the operand that wins: the
 * result then depends on the operands alone and not on how a compiler copies structs.
 */
#include "core/accel/host_loops.h"
#include "core/base/types.h"
#include "kernels/functors.h"
#include <string.h>

/* Loops are vectorised whatever the build's optimisation level, and a*b+c is never fused. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "fp-contract=off")
#elif defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* Rounds a product where there are fused instructions: GCC's vectoriser makes them of complex products, fp-contract=off or not. The file's
 * target may have them, or the whole build (-march=native). */
#if defined(__AVX512F__)
#define KEEP(value) __asm__("" : "+v"(value))
#elif defined(__FMA__)
#define KEEP(value) __asm__("" : "+x"(value))
#elif defined(__aarch64__)
#define KEEP(value) __asm__("" : "+w"(value))
#else
#define KEEP(value)
#endif

/* The callers' buffers have types of their own. */
#define ALIAS __attribute__((may_alias))

typedef int8_t ALIAS i8;
typedef int16_t ALIAS i16;
typedef int32_t ALIAS i32;
typedef int64_t ALIAS i64;
typedef uint8_t ALIAS u8;
typedef uint16_t ALIAS u16;
typedef uint32_t ALIAS u32;
typedef uint64_t ALIAS u64;
typedef uint16_t ALIAS f16;
typedef uint16_t ALIAS bf16;
typedef float ALIAS f32;
typedef double ALIAS f64;

typedef struct ALIAS c64 {
    float re, im;
} c64;
typedef struct ALIAS c128 {
    double re, im;
} c128;

/* `raw` covers the padding; 32-bit words, so that it does not raise the alignment. */
#define PAIR(name, value_type, location_type, words)                                                         \
    typedef union ALIAS name {                                                                               \
        struct {                                                                                             \
            value_type value;                                                                                \
            location_type location;                                                                          \
        };                                                                                                   \
        uint32_t raw[words];                                                                                 \
    } name;                                                                                                  \
    _Static_assert(sizeof(name) == (words)*4, "the words cover the pair")
PAIR(p_i16i32, int16_t, int32_t, 2);
PAIR(p_i32i32, int32_t, int32_t, 2);
PAIR(p_i64i32, int64_t, int32_t, 4);
PAIR(p_f32i32, float, int32_t, 2);
PAIR(p_f64i32, double, int32_t, 4);
PAIR(p_f32f32, float, float, 2);
PAIR(p_f64f64, double, double, 4);

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* The conversions have no branches, only choices, so that loops over them vectorise. Exponent bias: 15 in
 * half, 127 in single precision; 10 and 23 bits of fraction. */
static inline float float_of_f16(uint16_t half)
{
    uint32_t body = half & 0x7fffu;
    uint32_t normal = (body << 13) + ((127u - 15) << 23);
    uint32_t special = (body << 13) | 0x7f800000u;                   /* infinity, NaN */
    uint32_t small = bits_of_float((float)(int32_t)body * 0x1p-24f); /* subnormal, zero */
    uint32_t bits = body >= 0x7c00 ? special : body < 0x0400 ? small : normal;
    return float_of_bits(bits | (half & 0x8000u) << 16);
}

static inline uint16_t f16_of_float(float value)
{
    uint32_t sign = bits_of_float(value) >> 16 & 0x8000u;
    uint32_t body = bits_of_float(value) & 0x7fffffffu;
    uint32_t normal = (body + 0xfff + (body >> 13 & 1) - ((127u - 15) << 23)) >> 13;
    /* In [0.5, 1) the last place of single precision is 2^-24, that of a subnormal half: the addition rounds.
     */
    uint32_t small = bits_of_float(float_of_bits(body) + 0.5f) - 0x3f000000u;
    uint32_t bits = body < 0x38800000u ? small : body >= 0x47800000u ? 0x7c00u : normal;
    return (uint16_t)(body > 0x7f800000u ? 0x7fffu : bits | sign);
}

static inline float float_of_bf16(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

static inline uint16_t bf16_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

/* One function for each functor, named as in the list. `1u *` keeps small types from being promoted to int.
 */
#define EXPRESSION_SUM 1u * a + b
#define EXPRESSION_PROD 1u * a *b
#define EXPRESSION_MAX a > b ? a : b
#define EXPRESSION_MIN a < b ? a : b
#define EXPRESSION_LAND (a != 0) & (b != 0)
#define EXPRESSION_LOR (a != 0) | (b != 0)
#define EXPRESSION_LXOR (a != 0) ^ (b != 0)
#define EXPRESSION_BAND a &b
#define EXPRESSION_BOR a | b
#define EXPRESSION_BXOR a ^ b
#define DEFINE_INTEGER(name, op, element, ...)                                                               \
    static inline element name(element a, element b)                                                         \
    {                                                                                                        \
        return (element)(EXPRESSION_##op);                                                                   \
    }
GPUCOLL_FUNCTORS_INTEGER(DEFINE_INTEGER)
GPUCOLL_FUNCTORS_LOGICAL(DEFINE_INTEGER)

#define DEFINE_REAL(el)                                                                                      \
    static inline el sum_##el(el a, el b)                                                                    \
    {                                                                                                        \
        return a + b;                                                                                        \
    }                                                                                                        \
    static inline el prod_##el(el a, el b)                                                                   \
    {                                                                                                        \
        return a * b;                                                                                        \
    }                                                                                                        \
    static inline el max_##el(el a, el b)                                                                    \
    {                                                                                                        \
        return a > b ? a : b;                                                                                \
    }                                                                                                        \
    static inline el min_##el(el a, el b)                                                                    \
    {                                                                                                        \
        return a < b ? a : b;                                                                                \
    }
DEFINE_REAL(f32)
DEFINE_REAL(f64)

#define DEFINE_HALF(el)                                                                                      \
    static inline el sum_##el(el a, el b)                                                                    \
    {                                                                                                        \
        return el##_of_float(float_of_##el(a) + float_of_##el(b));                                           \
    }                                                                                                        \
    static inline el prod_##el(el a, el b)                                                                   \
    {                                                                                                        \
        return el##_of_float(float_of_##el(a) * float_of_##el(b));                                           \
    }                                                                                                        \
    static inline el max_##el(el a, el b)                                                                    \
    {                                                                                                        \
        return float_of_##el(a) > float_of_##el(b) ? a : b;                                                  \
    }                                                                                                        \
    static inline el min_##el(el a, el b)                                                                    \
    {                                                                                                        \
        return float_of_##el(a) < float_of_##el(b) ? a : b;                                                  \
    }
DEFINE_HALF(f16)
DEFINE_HALF(bf16)

#define DEFINE_COMPLEX(el, real)                                                                             \
    static inline el sum_##el(el a, el b)                                                                    \
    {                                                                                                        \
        return (el){a.re + b.re, a.im + b.im};                                                               \
    }                                                                                                        \
    static inline el prod_##el(el a, el b)                                                                   \
    {                                                                                                        \
        real re = a.re * b.re;                                                                               \
        real im = a.re * b.im;                                                                               \
        KEEP(re);                                                                                            \
        KEEP(im);                                                                                            \
        return (el){re - a.im * b.im, im + a.im * b.re};                                                     \
    }
DEFINE_COMPLEX(c64, float)
DEFINE_COMPLEX(c128, double)

/* Of equal values the smaller location wins, whichever operand has it. */
#define BETTER_MAXLOC >
#define BETTER_MINLOC <
#define DEFINE_PAIR(name, op, element, ...)                                                                  \
    static inline element name(element a, element b)                                                         \
    {                                                                                                        \
        bool first = a.value BETTER_##op b.value || (a.value == b.value && a.location <= b.location);        \
        element winner;                                                                                      \
        for (size_t i = 0; i < sizeof(winner.raw) / sizeof(winner.raw[0]); i++) {                            \
            winner.raw[i] = first ? a.raw[i] : b.raw[i];                                                     \
        }                                                                                                    \
        return winner;                                                                                       \
    }
GPUCOLL_FUNCTORS_PAIR(DEFINE_PAIR)

/* `to` is `a`, or `b`, or apart from both, so no iteration depends on another. */
#if defined(__GNUC__) && !defined(__clang__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif
#define DEFINE_LOOP(name, op, element, ...)                                                                  \
    static void loop_##name(void *to, const void *a, const void *b, size_t count)                            \
    {                                                                                                        \
        element *result = to;                                                                                \
        const element *left = a;                                                                             \
        const element *right = b;                                                                            \
        INDEPENDENT                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                                 \
            result[i] = name(left[i], right[i]);                                                             \
        }                                                                                                    \
    }
GPUCOLL_FUNCTORS(DEFINE_LOOP)

enum { BITWISE = 1 << GPUCOLL_BAND | 1 << GPUCOLL_BOR | 1 << GPUCOLL_BXOR };

#define ROW(name, op, element, ...)                                                                          \
    {loop_##name, sizeof(element), _Alignof(element), (BITWISE >> GPUCOLL_##op & 1) ? 1 : sizeof(element)},
const struct gpucoll_host_loop LOOPS[GPUCOLL_FUNCTOR_COUNT] = {GPUCOLL_FUNCTORS(ROW)};
