/*
 * The one list of reductions: F(name, operator, element). It makes the device kernels (allreduce_*.cu), the
 * host kernels (core/accel/host_reduce.c) and the look-up from (operator, type) in core/base/types.c.
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

#define GPUCOLL_FUNCTORS_INTEGER(F)                                                                          \
    F(sum_u8, SUM, u8) F(sum_u16, SUM, u16) F(sum_u32, SUM, u32) F(sum_u64, SUM, u64)                        \
    F(prod_u8, PROD, u8) F(prod_u16, PROD, u16) F(prod_u32, PROD, u32) F(prod_u64, PROD, u64)                \
    F(max_i8, MAX, i8) F(max_i16, MAX, i16) F(max_i32, MAX, i32) F(max_i64, MAX, i64)                        \
    F(max_u8, MAX, u8) F(max_u16, MAX, u16) F(max_u32, MAX, u32) F(max_u64, MAX, u64)                        \
    F(min_i8, MIN, i8) F(min_i16, MIN, i16) F(min_i32, MIN, i32) F(min_i64, MIN, i64)                        \
    F(min_u8, MIN, u8) F(min_u16, MIN, u16) F(min_u32, MIN, u32) F(min_u64, MIN, u64)

#define GPUCOLL_FUNCTORS_LOGICAL(F)                                                                          \
    F(land_u8, LAND, u8) F(land_u16, LAND, u16) F(land_u32, LAND, u32) F(land_u64, LAND, u64)                \
    F(lor_u8, LOR, u8) F(lor_u16, LOR, u16) F(lor_u32, LOR, u32) F(lor_u64, LOR, u64)                        \
    F(lxor_u8, LXOR, u8) F(lxor_u16, LXOR, u16) F(lxor_u32, LXOR, u32) F(lxor_u64, LXOR, u64)                \
    F(band_u64, BAND, u64) F(bor_u64, BOR, u64) F(bxor_u64, BXOR, u64)

#define GPUCOLL_FUNCTORS_FLOAT(F)                                                                            \
    F(sum_f16, SUM, f16) F(sum_bf16, SUM, bf16) F(sum_f32, SUM, f32) F(sum_f64, SUM, f64)                    \
    F(prod_f16, PROD, f16) F(prod_bf16, PROD, bf16) F(prod_f32, PROD, f32) F(prod_f64, PROD, f64)            \
    F(max_f16, MAX, f16) F(max_bf16, MAX, bf16) F(max_f32, MAX, f32) F(max_f64, MAX, f64)                    \
    F(min_f16, MIN, f16) F(min_bf16, MIN, bf16) F(min_f32, MIN, f32) F(min_f64, MIN, f64)                    \
    F(sum_c64, SUM, c64) F(sum_c128, SUM, c128) F(prod_c64, PROD, c64) F(prod_c128, PROD, c128)

#define GPUCOLL_FUNCTORS_PAIR(F)                                                                             \
    F(maxloc_i16i32, MAXLOC, p_i16i32) F(maxloc_i32i32, MAXLOC, p_i32i32)                                    \
    F(maxloc_i64i32, MAXLOC, p_i64i32) F(maxloc_f32i32, MAXLOC, p_f32i32)                                    \
    F(maxloc_f64i32, MAXLOC, p_f64i32) F(maxloc_f32f32, MAXLOC, p_f32f32)                                    \
    F(maxloc_f64f64, MAXLOC, p_f64f64)                                                                       \
    F(minloc_i16i32, MINLOC, p_i16i32) F(minloc_i32i32, MINLOC, p_i32i32)                                    \
    F(minloc_i64i32, MINLOC, p_i64i32) F(minloc_f32i32, MINLOC, p_f32i32)                                    \
    F(minloc_f64i32, MINLOC, p_f64i32) F(minloc_f32f32, MINLOC, p_f32f32)                                    \
    F(minloc_f64f64, MINLOC, p_f64f64)

#define GPUCOLL_FUNCTORS(F)                                                                                  \
    GPUCOLL_FUNCTORS_INTEGER(F) GPUCOLL_FUNCTORS_LOGICAL(F) GPUCOLL_FUNCTORS_FLOAT(F) GPUCOLL_FUNCTORS_PAIR(F)

#define GPUCOLL_FUNCTOR_ENUM(name, op, element) GPUCOLL_FN_##name,
enum gpucoll_functor_id { GPUCOLL_FUNCTORS(GPUCOLL_FUNCTOR_ENUM) GPUCOLL_FUNCTOR_COUNT };
#undef GPUCOLL_FUNCTOR_ENUM

#endif
