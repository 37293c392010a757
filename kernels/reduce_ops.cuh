/*
 * The operators and elements of kernels/functors.h on the device. `reduce(op, a, b)` works on a whole pack, `a` from the lower ranks;
 * `op` is an op_SUM<f32>, say, of the call. Results are those of core/accel/host_reduce.c: 16-bit floats go through single precision, complex
 * products are rounded after each step (no fused multiply-add), a > b ? a : b and a < b ? a : b decide what becomes of a NaN.
 */
#ifndef GPUCOLL_KERNELS_REDUCE_OPS_CUH
#define GPUCOLL_KERNELS_REDUCE_OPS_CUH

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>
#include "kernels/functors.h"
#include "kernels/kernel_abi.h"
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

/* An operator is made from a call's variant. Most have one only. */
struct invariable {
    __device__ __forceinline__ explicit invariable(uint32_t)
    {
    }
};

template <typename T> struct op_SUM : invariable {
    using invariable::invariable;
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return static_cast<T>(a + b);
    }
};
template <typename T> struct op_PROD : invariable {
    using invariable::invariable;
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return static_cast<T>(1u * a * b); /* small types would be promoted to int, which overflows */
    }
};

/* 16-bit floats: in single precision. */
template <typename T> struct narrow_sum : invariable {
    using invariable::invariable;
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return T::from(add(a.wide(), b.wide()));
    }
};
template <typename T> struct narrow_product : invariable {
    using invariable::invariable;
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return T::from(multiply(a.wide(), b.wide()));
    }
};
template <> struct op_SUM<f16> : narrow_sum<f16> {
    using narrow_sum::narrow_sum;
};
template <> struct op_SUM<bf16> : narrow_sum<bf16> {
    using narrow_sum::narrow_sum;
};
template <> struct op_PROD<f16> : narrow_product<f16> {
    using narrow_product::narrow_product;
};
template <> struct op_PROD<bf16> : narrow_product<bf16> {
    using narrow_product::narrow_product;
};

template <typename T> struct real_product : invariable {
    using invariable::invariable;
    using element = T;
    static __device__ __forceinline__ T apply(T a, T b)
    {
        return multiply(a, b);
    }
};
template <> struct op_PROD<f32> : real_product<f32> {
    using real_product::real_product;
};
template <> struct op_PROD<f64> : real_product<f64> {
    using real_product::real_product;
};

template <typename T> struct op_PROD<complex_of<T>> : invariable {
    using invariable::invariable;
    using element = complex_of<T>;
    static __device__ __forceinline__ element apply(element a, element b)
    {
        return {add(multiply(a.re, b.re), -multiply(a.im, b.im)), add(multiply(a.re, b.im), multiply(a.im, b.re))};
    }
};

/* Maximum and minimum are one operator: the element wins that is greater after bits of both are flipped. Of integers all bits reverse the
 * order, and the first one makes that of unsigned numbers of the signed one's, where a variant asks for it (pairs hold signed numbers as such); of
 * floats the sign reverses it. */
template <typename T> class order_of {
  public:
    __device__ __forceinline__ explicit order_of(uint32_t variant) : flip_(flip(variant))
    {
    }
    __device__ __forceinline__ bool greater(T a, T b) const
    {
        return static_cast<T>(a ^ flip_) > static_cast<T>(b ^ flip_);
    }

  private:
    static __device__ __forceinline__ T flip(uint32_t variant)
    {
        if constexpr (std::is_signed<T>::value) {
            return (variant & GPUCOLL_VARIANT_MIN) != 0 ? -1 : 0;
        } else {
            return static_cast<T>(((variant & GPUCOLL_VARIANT_MAX_SIGNED) != 0 ? static_cast<T>(1) << (8 * sizeof(T) - 1) : 0) ^
                                  ((variant & GPUCOLL_VARIANT_MIN) != 0 ? ~static_cast<T>(0) : 0));
        }
    }

    T flip_;
};

class float_order {
  public:
    __device__ __forceinline__ explicit float_order(uint32_t variant)
        : sign_((variant & GPUCOLL_VARIANT_MIN) != 0 ? 1u << 31 : 0)
    {
    }
    __device__ __forceinline__ bool greater(f32 a, f32 b) const
    {
        return flipped(a) > flipped(b);
    }
    __device__ __forceinline__ bool greater(f64 a, f64 b) const
    {
        return flipped(a) > flipped(b);
    }
    template <typename Narrow> __device__ __forceinline__ bool greater(Narrow a, Narrow b) const
    {
        return greater(a.wide(), b.wide());
    }

  private:
    __device__ __forceinline__ f32 flipped(f32 value) const
    {
        return __uint_as_float(__float_as_uint(value) ^ sign_);
    }
    __device__ __forceinline__ f64 flipped(f64 value) const
    {
        return __hiloint2double(__double2hiint(value) ^ static_cast<int>(sign_), __double2loint(value));
    }
    uint32_t sign_;
};
template <> struct order_of<f16> : float_order {
    using float_order::float_order;
};
template <> struct order_of<bf16> : float_order {
    using float_order::float_order;
};
template <> struct order_of<f32> : float_order {
    using float_order::float_order;
};
template <> struct order_of<f64> : float_order {
    using float_order::float_order;
};

template <typename T> class op_EXTREME {
  public:
    using element = T;
    __device__ __forceinline__ explicit op_EXTREME(uint32_t variant) : order_(variant)
    {
    }
    __device__ __forceinline__ T apply(T a, T b) const
    {
        return order_.greater(a, b) ? a : b;
    }

  private:
    order_of<T> order_;
};

/* Conjunction, disjunction and exclusive disjunction are one operator, of two masks: what remains of the bits that both have, and of those that
 * one has. Elements are true or not; */
template <typename T> class op_LOGIC {
  public:
    using element = T;
    __device__ __forceinline__ explicit op_LOGIC(uint32_t variant) : both_(variant & 1u), one_(variant >> 1 & 1u)
    {
    }
    __device__ __forceinline__ T apply(T a, T b) const
    {
        const uint32_t left = a != 0;
        const uint32_t right = b != 0;
        return static_cast<T>((left & right & both_) | ((left ^ right) & one_));
    }

  private:
    uint32_t both_;
    uint32_t one_;
};

/* or any bits. */
template <typename T> class op_BITS {
  public:
    using element = T;
    __device__ __forceinline__ explicit op_BITS(uint32_t variant)
        : both_((variant & GPUCOLL_VARIANT_AND) != 0 ? ~static_cast<T>(0) : 0),
          one_((variant & GPUCOLL_VARIANT_XOR) != 0 ? ~static_cast<T>(0) : 0)
    {
    }
    __device__ __forceinline__ T apply(T a, T b) const
    {
        return (a & b & both_) | ((a ^ b) & one_);
    }

  private:
    T both_;
    T one_;
};

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

template <typename T> class op_EXTREME_LOC {
  public:
    using element = T;
    __device__ __forceinline__ explicit op_EXTREME_LOC(uint32_t variant) : order_(variant)
    {
    }
    __device__ __forceinline__ T apply(const T &a, const T &b) const
    {
        return choose(order_.greater(a.of.value, b.of.value) ||
                          (a.of.value == b.of.value && a.of.location <= b.of.location),
                      a, b);
    }

  private:
    order_of<decltype(T::of.value)> order_;
};

template <typename Op> __device__ __forceinline__ pack reduce(const Op &op, pack a, pack b)
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
        left.element[i] = op.apply(left.element[i], right.element[i]);
    }
    return left.whole;
}

/* By any rare reducer. Called, so that a kernel has their code once, however many places it reduces at. */
static __device__ __noinline__ pack reduce_rarely(uint32_t variant, pack a, pack b)
{
    const uint32_t bits = variant & ((1u << GPUCOLL_VARIANT_BITS) - 1);
#define GPUCOLL_CASE(name, op, element)                                                                      \
    case GPUCOLL_REDUCER_##name:                                                                             \
        return reduce(op_##op<element>(bits), a, b);
    switch (GPUCOLL_REDUCER_rare + (variant >> GPUCOLL_VARIANT_BITS)) {
        GPUCOLL_REDUCERS_RARE(GPUCOLL_CASE)
    default:
        return a;
    }
#undef GPUCOLL_CASE
}

/* The operator of the rare reducers, which of them a variant says; its elements are whole packs. */
template <typename T> struct op_RARE {
    static_assert(sizeof(T) == GPUCOLL_PACK_BYTES, "it reduces whole packs");

    __device__ __forceinline__ explicit op_RARE(uint32_t variant) : variant(variant)
    {
    }

    const uint32_t variant;
};

__device__ __forceinline__ pack reduce(const op_RARE<pack> &op, pack a, pack b)
{
    return reduce_rarely(op.variant, a, b);
}

} // namespace gpucoll

#endif
