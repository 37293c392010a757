/*
 * The one list of reductions: F(name, operator, element, reducer, variant). It makes the host kernels (core/accel/host_loops_body.h) and the
 * look-up from (operator, type) in core/base/types.c. On the device, functors that differ in little share a *reducer*, and are told apart by a
 * variant in a kernel's arguments. A *suite* of kernels (allreduce_*.cu and so on) is for one reducer that large messages are reduced with, or for
 * all others. Both is for the size of the code, all of which is loaded before the first call.
 *
 * `element` names a C type in both worlds:
 *   i8..i64, u8..u64  integers           f16, bf16, f32, f64   floating point
 *   c64, c128         float/double complex
 *   p_i16i32 p_i32i32 p_i64i32 p_f32i32 p_f64i32 p_f32f32 p_f64f64   (value, location) pairs
 * Sums and products of signed integers are done on the unsigned type of the same size: two's complement makes
 * the bits equal and overflow is then defined. Bitwise operators need no element size: they work on u64.
 */
#ifndef GPUCOLL_KERNELS_FUNCTORS_H
#define GPUCOLL_KERNELS_FUNCTORS_H

/* clang-format off */
#define GPUCOLL_FUNCTORS_INTEGER(F)                                                                          \
    F(sum_u8, SUM, u8, sum_u8, ONLY) F(sum_u16, SUM, u16, sum_u16, ONLY)                                     \
    F(sum_u32, SUM, u32, sum_u32, ONLY) F(sum_u64, SUM, u64, sum_u64, ONLY)                                  \
    F(prod_u8, PROD, u8, prod_u8, ONLY) F(prod_u16, PROD, u16, prod_u16, ONLY)                               \
    F(prod_u32, PROD, u32, prod_u32, ONLY) F(prod_u64, PROD, u64, prod_u64, ONLY)                            \
    F(max_i8, MAX, i8, extreme_u8, MAX_SIGNED) F(max_i16, MAX, i16, extreme_u16, MAX_SIGNED)                 \
    F(max_i32, MAX, i32, extreme_u32, MAX_SIGNED) F(max_i64, MAX, i64, extreme_u64, MAX_SIGNED)              \
    F(max_u8, MAX, u8, extreme_u8, MAX) F(max_u16, MAX, u16, extreme_u16, MAX)                               \
    F(max_u32, MAX, u32, extreme_u32, MAX) F(max_u64, MAX, u64, extreme_u64, MAX)                            \
    F(min_i8, MIN, i8, extreme_u8, MIN_SIGNED) F(min_i16, MIN, i16, extreme_u16, MIN_SIGNED)                 \
    F(min_i32, MIN, i32, extreme_u32, MIN_SIGNED) F(min_i64, MIN, i64, extreme_u64, MIN_SIGNED)              \
    F(min_u8, MIN, u8, extreme_u8, MIN) F(min_u16, MIN, u16, extreme_u16, MIN)                               \
    F(min_u32, MIN, u32, extreme_u32, MIN) F(min_u64, MIN, u64, extreme_u64, MIN)

#define GPUCOLL_FUNCTORS_LOGICAL(F)                                                                          \
    F(land_u8, LAND, u8, logic_u8, AND) F(land_u16, LAND, u16, logic_u16, AND)                               \
    F(land_u32, LAND, u32, logic_u32, AND) F(land_u64, LAND, u64, logic_u64, AND)                            \
    F(lor_u8, LOR, u8, logic_u8, OR) F(lor_u16, LOR, u16, logic_u16, OR)                                     \
    F(lor_u32, LOR, u32, logic_u32, OR) F(lor_u64, LOR, u64, logic_u64, OR)                                  \
    F(lxor_u8, LXOR, u8, logic_u8, XOR) F(lxor_u16, LXOR, u16, logic_u16, XOR)                               \
    F(lxor_u32, LXOR, u32, logic_u32, XOR) F(lxor_u64, LXOR, u64, logic_u64, XOR)                            \
    F(band_u64, BAND, u64, bits_u64, AND) F(bor_u64, BOR, u64, bits_u64, OR)                                 \
    F(bxor_u64, BXOR, u64, bits_u64, XOR)

#define GPUCOLL_FUNCTORS_FLOAT(F)                                                                            \
    F(sum_f16, SUM, f16, sum_f16, ONLY) F(sum_bf16, SUM, bf16, sum_bf16, ONLY)                               \
    F(sum_f32, SUM, f32, sum_f32, ONLY) F(sum_f64, SUM, f64, sum_f64, ONLY)                                  \
    F(prod_f16, PROD, f16, prod_f16, ONLY) F(prod_bf16, PROD, bf16, prod_bf16, ONLY)                         \
    F(prod_f32, PROD, f32, prod_f32, ONLY) F(prod_f64, PROD, f64, prod_f64, ONLY)                            \
    F(max_f16, MAX, f16, extreme_f16, MAX) F(max_bf16, MAX, bf16, extreme_bf16, MAX)                         \
    F(max_f32, MAX, f32, extreme_f32, MAX) F(max_f64, MAX, f64, extreme_f64, MAX)                            \
    F(min_f16, MIN, f16, extreme_f16, MIN) F(min_bf16, MIN, bf16, extreme_bf16, MIN)                         \
    F(min_f32, MIN, f32, extreme_f32, MIN) F(min_f64, MIN, f64, extreme_f64, MIN)                            \
    F(sum_c64, SUM, c64, sum_f32, ONLY) F(sum_c128, SUM, c128, sum_f64, ONLY)                                \
    F(prod_c64, PROD, c64, prod_c64, ONLY) F(prod_c128, PROD, c128, prod_c128, ONLY)

#define GPUCOLL_FUNCTORS_PAIR(F)                                                                             \
    F(maxloc_i16i32, MAXLOC, p_i16i32, extreme_i16i32, MAX)                                                  \
    F(maxloc_i32i32, MAXLOC, p_i32i32, extreme_i32i32, MAX)                                                  \
    F(maxloc_i64i32, MAXLOC, p_i64i32, extreme_i64i32, MAX)                                                  \
    F(maxloc_f32i32, MAXLOC, p_f32i32, extreme_f32i32, MAX)                                                  \
    F(maxloc_f64i32, MAXLOC, p_f64i32, extreme_f64i32, MAX)                                                  \
    F(maxloc_f32f32, MAXLOC, p_f32f32, extreme_f32f32, MAX)                                                  \
    F(maxloc_f64f64, MAXLOC, p_f64f64, extreme_f64f64, MAX)                                                  \
    F(minloc_i16i32, MINLOC, p_i16i32, extreme_i16i32, MIN)                                                  \
    F(minloc_i32i32, MINLOC, p_i32i32, extreme_i32i32, MIN)                                                  \
    F(minloc_i64i32, MINLOC, p_i64i32, extreme_i64i32, MIN)                                                  \
    F(minloc_f32i32, MINLOC, p_f32i32, extreme_f32i32, MIN)                                                  \
    F(minloc_f64i32, MINLOC, p_f64i32, extreme_f64i32, MIN)                                                  \
    F(minloc_f32f32, MINLOC, p_f32f32, extreme_f32f32, MIN)                                                  \
    F(minloc_f64f64, MINLOC, p_f64f64, extreme_f64f64, MIN)
/* clang-format on */

#define GPUCOLL_FUNCTORS(F)                                                                                  \
    GPUCOLL_FUNCTORS_INTEGER(F) GPUCOLL_FUNCTORS_LOGICAL(F) GPUCOLL_FUNCTORS_FLOAT(F) GPUCOLL_FUNCTORS_PAIR(F)

#define GPUCOLL_FUNCTOR_ENUM(name, op, element, reducer, variant) GPUCOLL_FN_##name,
enum gpucoll_functor_id {
    GPUCOLL_FUNCTORS(GPUCOLL_FUNCTOR_ENUM) GPUCOLL_FUNCTOR_COUNT,
    GPUCOLL_FUNCTOR_OF_MOVES = GPUCOLL_FN_sum_u32 /* what only moves runs by the kernels of this one, where any will do */
};
#undef GPUCOLL_FUNCTOR_ENUM

/* R(name, operator, element): those that have kernels of their own, */
/* clang-format off */
#define GPUCOLL_REDUCERS_INTEGER(R)                                                                          \
    R(sum_u32, SUM, u32) R(sum_u64, SUM, u64) R(extreme_u32, EXTREME, u32) R(extreme_u64, EXTREME, u64)

#define GPUCOLL_REDUCERS_FLOAT(R)                                                                            \
    R(sum_f16, SUM, f16) R(sum_bf16, SUM, bf16) R(sum_f32, SUM, f32) R(sum_f64, SUM, f64)                    \
    R(extreme_f32, EXTREME, f32) R(extreme_f64, EXTREME, f64)

/* and rare ones: these share kernels, named "rare", which call a function for each pack that they reduce. */
#define GPUCOLL_REDUCERS_RARE(R)                                                                             \
    R(sum_u8, SUM, u8) R(sum_u16, SUM, u16)                                                                  \
    R(prod_u8, PROD, u8) R(prod_u16, PROD, u16) R(prod_u32, PROD, u32) R(prod_u64, PROD, u64)                \
    R(extreme_u8, EXTREME, u8) R(extreme_u16, EXTREME, u16)                                                  \
    R(logic_u8, LOGIC, u8) R(logic_u16, LOGIC, u16) R(logic_u32, LOGIC, u32) R(logic_u64, LOGIC, u64)        \
    R(bits_u64, BITS, u64)                                                                                   \
    R(prod_f16, PROD, f16) R(prod_bf16, PROD, bf16) R(prod_f32, PROD, f32) R(prod_f64, PROD, f64)            \
    R(extreme_f16, EXTREME, f16) R(extreme_bf16, EXTREME, bf16)                                              \
    R(prod_c64, PROD, c64) R(prod_c128, PROD, c128)                                                          \
    R(extreme_i16i32, EXTREME_LOC, p_i16i32) R(extreme_i32i32, EXTREME_LOC, p_i32i32)                        \
    R(extreme_i64i32, EXTREME_LOC, p_i64i32) R(extreme_f32i32, EXTREME_LOC, p_f32i32)                        \
    R(extreme_f64i32, EXTREME_LOC, p_f64i32) R(extreme_f32f32, EXTREME_LOC, p_f32f32)                        \
    R(extreme_f64f64, EXTREME_LOC, p_f64f64)
/* clang-format on */

/* The rare ones come last, so that numbers up to that of the first one are those of kernels. */
#define GPUCOLL_REDUCER_ENUM(name, op, element) GPUCOLL_REDUCER_##name,
enum gpucoll_reducer {
    GPUCOLL_REDUCERS_INTEGER(GPUCOLL_REDUCER_ENUM) GPUCOLL_REDUCERS_FLOAT(GPUCOLL_REDUCER_ENUM) GPUCOLL_REDUCER_rare,
    GPUCOLL_REDUCER_LAST_OWN = GPUCOLL_REDUCER_rare - 1,
    GPUCOLL_REDUCERS_RARE(GPUCOLL_REDUCER_ENUM) GPUCOLL_REDUCER_COUNT
};
#undef GPUCOLL_REDUCER_ENUM
enum { GPUCOLL_SUITE_COUNT = GPUCOLL_REDUCER_rare + 1 };

/* Bits that the kernels take apart (reduce_ops.cuh). */
enum gpucoll_variant {
    GPUCOLL_VARIANT_ONLY = 0,
    /* EXTREME, EXTREME_LOC: which is the greater one of two? */
    GPUCOLL_VARIANT_MAX = 0,
    GPUCOLL_VARIANT_MAX_SIGNED = 1,
    GPUCOLL_VARIANT_MIN = 2,
    GPUCOLL_VARIANT_MIN_SIGNED = 3,
    /* LOGIC, BITS: 1 if both are set, 2 if one is */
    GPUCOLL_VARIANT_AND = 1,
    GPUCOLL_VARIANT_XOR = 2,
    GPUCOLL_VARIANT_OR = 3,
    /* Above these bits, of a rare reducer: which, counted from the first. */
    GPUCOLL_VARIANT_BITS = 2
};

#endif
