/*
 * The operators and elements of kernels/functors.h on the device. `reduce<op_SUM<f32>>(a, b)` works on a whole pack, `a` from the
 * lower ranks. Results are those of core/accel/host_reduce.c: 16-bit floats go through single precision, complex products are rounded
 * after each step (no fused multiply-add), a > b ? a : b and a < b ? a : b decide what becomes of a NaN.
 */
#ifndef GPUCOLL_KERNELS_REDUCE_OPS_CUH
#define GPUCOLL_KERNELS_REDUCE_OPS_CUH

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "kernels/functors.h"
#include "kernels/pack.cuh"

namespace gpucoll {

using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using f32 = float;
using f64 = double;

/* Plain storage, so that packs of them are plain unions. */
struct f16 {
    uint16_t bits;
    static __device__ __forceinline__ f16 from(float value)
    {
        return {__half_as_ushort(__float2half_rn(value))};
    }
    __device__ __forceinline__ float wide() const
    {
        return __half2float(__ushort_as_half(bits));
    }
};

struct bf16 {
    uint16_t bits;
    static __device__ __forceinline__ bf16 from(float value)
    {
        return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
    }
    __device__ __forceinline__ float wide() const
    {
        return __uint_as_float(static_cast<uint32_t>(bits) << 16);
    }
};

template <typename T> struct complex_of {
    T re, im;
};
using c64 = complex_of<float>;
using c128 = complex_of<double>;

/* `raw` covers the padding, which goes with the element that wins. */
template <typename Value, typename Location> union pair_of {
    struct {
        Value value;
        Location location;
    } of;
    uint32_t raw[sizeof(of) / 4];
};
using p_i16i32 = pair_of<i16, i32>;
using p_i32i32 = pair_of<i32, i32>;
using p_i64i32 = pair_of<i64, i32>;
using p_f32i32 = pair_of<f32, i32>;
using p_f64i32 = pair_of<f64, i32>;
using p_f32f32 = pair_of<f32, f32>;
using p_f64f64 = pair_of<f64, f64>;

/* The steps of arithmetic, never fused. */
__device__ __forceinline__ float add(float a, float b)
{
    return __fadd_rn(a, b);
}
__device__ __forceinline__ double add(double a, double b)
{
    return __dadd_rn(a, b);
}
__device__ __forceinline__ float multiply(float a, float b)
{
    return __fmul_rn(a, b);
}
__device__ __forceinline__ double multiply(double a, double b)
{
    return __dmul_rn(a, b);
}

template <typename T> struct op_SUM {
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return static_cast<T>(a + b);
    }
};
template <typename T> struct op_PROD {
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return static_cast<T>(1u * a * b); /* small types would be promoted to int, which overflows */
    }
};

/* 16-bit floats: in single precision. */
template <typename T> struct narrow_sum {
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return T::from(add(a.wide(), b.wide()));
    }
};
template <typename T> struct narrow_product {
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return T::from(multiply(a.wide(), b.wide()));
    }
};
template <> struct op_SUM<f16> : narrow_sum<f16> {};
template <> struct op_SUM<bf16> : narrow_sum<bf16> {};
template <> struct op_PROD<f16> : narrow_product<f16> {};
template <> struct op_PROD<bf16> : narrow_product<bf16> {};

template <typename T> struct real_product {
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return multiply(a, b);
    }
};
template <> struct op_PROD<f32> : real_product<f32> {};
template <> struct op_PROD<f64> : real_product<f64> {};

template <typename T> struct op_SUM<complex_of<T>> {
    using element = complex_of<T>;
    static __device__ __forceinline__ element apply(element a, element b)
    {
        return {add(a.re, b.re), add(a.im, b.im)};
    }
};
template <typename T> struct op_PROD<complex_of<T>> {
    using element = complex_of<T>;
    static __device__ __forceinline__ element apply(element a, element b)
    {
        return {add(multiply(a.re, b.re), -multiply(a.im, b.im)), add(multiply(a.re, b.im), multiply(a.im, b.re))};
    }
};

template <typename T> __device__ __forceinline__ T comparable(T value)
{
    return value;
}
__device__ __forceinline__ float comparable(f16 value)
{
    return value.wide();
}
__device__ __forceinline__ float comparable(bf16 value)
{
    return value.wide();
}

template <typename T> struct op_MAX {
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return comparable(a) > comparable(b) ? a : b;
    }
};
template <typename T> struct op_MIN {
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return comparable(a) < comparable(b) ? a : b;
    }
};

#define GPUCOLL_SIMPLE_OP(name, expression)                                                                  \
    template <typename T> struct name {                                                                      \
        using element = T;                                                                                   \
        static __device__ __forceinline__ T apply(T a, T b)                                                  \
        {                                                                                                    \
            return static_cast<T>(expression);                                                               \
        }                                                                                                    \
    }
GPUCOLL_SIMPLE_OP(op_LAND, (a != 0) & (b != 0));
GPUCOLL_SIMPLE_OP(op_LOR, (a != 0) | (b != 0));
GPUCOLL_SIMPLE_OP(op_LXOR, (a != 0) ^ (b != 0));
GPUCOLL_SIMPLE_OP(op_BAND, a &b);
GPUCOLL_SIMPLE_OP(op_BOR, a | b);
GPUCOLL_SIMPLE_OP(op_BXOR, a ^ b);
#undef GPUCOLL_SIMPLE_OP

/* Of equal values the smaller location wins, whichever operand has it. */
template <typename T> __device__ __forceinline__ T choose(bool first, const T &a, const T &b)
{
    T winner;
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 4; i++) {
        winner.raw[i] = first ? a.raw[i] : b.raw[i];
    }
    return winner;
}
template <typename T> struct op_MAXLOC {
    using element = T;
    static __device__ __forceinline__ T apply(const T &a, const T &b)
    {
        return choose(a.of.value > b.of.value || (a.of.value == b.of.value && a.of.location <= b.of.location), a, b);
    }
};
template <typename T> struct op_MINLOC {
    using element = T;
    static __device__ __forceinline__ T apply(const T &a, const T &b)
    {
        return choose(a.of.value < b.of.value || (a.of.value == b.of.value && a.of.location <= b.of.location), a, b);
    }
};

template <typename Op> __device__ __forceinline__ pack reduce(pack a, pack b)
{
    using T = typename Op::element;
    static_assert(GPUCOLL_PACK_BYTES % sizeof(T) == 0, "a pack holds whole elements");
    union view {
        pack whole;
        T element[GPUCOLL_PACK_BYTES / sizeof(T)];
    };
    view left{a};
    const view right{b};
#pragma unroll
    for (unsigned i = 0; i < GPUCOLL_PACK_BYTES / sizeof(T); i++) {
        left.element[i] = Op::apply(left.element[i], right.element[i]);
    }
    return left.whole;
}

} // namespace gpucoll

#endif
