/*
 * gpucoll_host_reduce for every functor against a reference made another way: integers in 128 bits, floats in quadruple precision
 * rounded once, 16-bit floats by search in the list of all their values.
 */
#include "test/unit/small_float.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

extern "C" {
#include "core/accel/host_loops.h"
}

#if defined(__SIZEOF_FLOAT128__)
using Wide = __float128;
#else
using Wide = long double;
#endif
using Int = __int128;

template <typename T> static T load(const void *from)
{
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* ---- one element ---- */

static Int integer_result(gpucoll_op op, Int a, Int b)
{
    switch (op) {
    case GPUCOLL_SUM:
        return a + b;
    case GPUCOLL_PROD: /* of the low bits, which is all that is kept: 128 bits would overflow */
        return static_cast<Int>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
    case GPUCOLL_MAX:
        return std::max(a, b);
    case GPUCOLL_MIN:
        return std::min(a, b);
    case GPUCOLL_LAND:
        return a && b;
    case GPUCOLL_LOR:
        return a || b;
    case GPUCOLL_LXOR:
        return !a != !b;
    case GPUCOLL_BAND:
        return a & b;
    case GPUCOLL_BOR:
        return a | b;
    default:
        return a ^ b;
    }
}

template <typename T> static void integer(gpucoll_op op, const char *a, const char *b, char *to)
{
    auto result = static_cast<T>(integer_result(op, load<T>(a), load<T>(b)));
    memcpy(to, &result, sizeof result);
}

static Wide real_result(gpucoll_op op, Wide a, Wide b)
{
    return op == GPUCOLL_SUM ? a + b : a * b;
}

template <typename T> static void real(gpucoll_op op, const char *a, const char *b, char *to)
{
    T x = load<T>(a);
    T y = load<T>(b);
    if (op == GPUCOLL_MAX || op == GPUCOLL_MIN) {
        bool first = op == GPUCOLL_MAX ? x > y : x < y;
        memcpy(to, first ? a : b, sizeof(T));
        return;
    }
    auto result = static_cast<T>(real_result(op, x, y));
    memcpy(to, &result, sizeof result);
}

static void small(gpucoll_op op, gpucoll_type type, const char *a, const char *b, char *to)
{
    const SmallFloat &format = SmallFloat::of(type);
    double x = format.decode(load<uint16_t>(a));
    double y = format.decode(load<uint16_t>(b));
    if (op == GPUCOLL_MAX || op == GPUCOLL_MIN) {
        bool first = op == GPUCOLL_MAX ? x > y : x < y;
        memcpy(to, first ? a : b, 2);
        return;
    }
    auto single = static_cast<float>(real_result(op, x, y));
    uint16_t result = format.encode(single);
    memcpy(to, &result, 2);
}

template <typename T> static void complex(gpucoll_op op, const char *a, const char *b, char *to)
{
    Wide ar = load<T>(a), ai = load<T>(a + sizeof(T)), br = load<T>(b), bi = load<T>(b + sizeof(T));
    T result[2];
    if (op == GPUCOLL_SUM) {
        result[0] = static_cast<T>(ar + br);
        result[1] = static_cast<T>(ai + bi);
    } else {
        /* Volatile: where there are fused instructions, compilers would not round here. */
        const volatile T rr = static_cast<T>(ar * br), ii = static_cast<T>(ai * bi);
        const volatile T ri = static_cast<T>(ar * bi), ir = static_cast<T>(ai * br);
        result[0] = static_cast<T>(Wide(rr) - Wide(ii));
        result[1] = static_cast<T>(Wide(ri) + Wide(ir));
    }
    memcpy(to, result, sizeof result);
}

template <typename V, typename L> static void pair(gpucoll_op op, const char *a, const char *b, char *to)
{
    struct Pair {
        V value;
        L location;
    };
    Pair x = load<Pair>(a);
    Pair y = load<Pair>(b);
    bool first = op == GPUCOLL_MAXLOC ? x.value > y.value : x.value < y.value;
    if (x.value == y.value) {
        first = x.location <= y.location;
    }
    memcpy(to, first ? a : b, sizeof(Pair)); /* its padding too */
}

static void reference(gpucoll_op op, gpucoll_type type, const char *a, const char *b, char *to)
{
    switch (type) {
    case GPUCOLL_INT8:
        return integer<int8_t>(op, a, b, to);
    case GPUCOLL_INT16:
        return integer<int16_t>(op, a, b, to);
    case GPUCOLL_INT32:
        return integer<int32_t>(op, a, b, to);
    case GPUCOLL_INT64:
        return integer<int64_t>(op, a, b, to);
    case GPUCOLL_UINT8:
        return integer<uint8_t>(op, a, b, to);
    case GPUCOLL_UINT16:
        return integer<uint16_t>(op, a, b, to);
    case GPUCOLL_UINT32:
        return integer<uint32_t>(op, a, b, to);
    case GPUCOLL_UINT64:
        return integer<uint64_t>(op, a, b, to);
    case GPUCOLL_FLOAT16:
    case GPUCOLL_BFLOAT16:
        return small(op, type, a, b, to);
    case GPUCOLL_FLOAT32:
        return real<float>(op, a, b, to);
    case GPUCOLL_FLOAT64:
        return real<double>(op, a, b, to);
    case GPUCOLL_COMPLEX64:
        return complex<float>(op, a, b, to);
    case GPUCOLL_COMPLEX128:
        return complex<double>(op, a, b, to);
    case GPUCOLL_SHORT_INT:
        return pair<int16_t, int32_t>(op, a, b, to);
    case GPUCOLL_INT_INT:
        return pair<int32_t, int32_t>(op, a, b, to);
    case GPUCOLL_LONG_INT:
        return pair<int64_t, int32_t>(op, a, b, to);
    case GPUCOLL_FLOAT_INT:
        return pair<float, int32_t>(op, a, b, to);
    case GPUCOLL_DOUBLE_INT:
        return pair<double, int32_t>(op, a, b, to);
    case GPUCOLL_FLOAT_FLOAT:
        return pair<float, float>(op, a, b, to);
    case GPUCOLL_DOUBLE_DOUBLE:
        return pair<double, double>(op, a, b, to);
    default:
        FAIL() << "no reference for type " << type;
    }
}

/* ---- many elements ---- */

/* A NaN's payload is the processor's own affair, except where the functor computes it (16-bit floats). */
template <typename T> static bool same_reals(const char *a, const char *b, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += sizeof(T)) {
        bool both_nan = std::isnan(load<T>(a + at)) && std::isnan(load<T>(b + at));
        if (!both_nan && memcmp(a + at, b + at, sizeof(T)) != 0) {
            return false;
        }
    }
    return true;
}

static bool same(gpucoll_type type, const char *a, const char *b, size_t bytes)
{
    switch (type) {
    case GPUCOLL_FLOAT32:
    case GPUCOLL_COMPLEX64:
        return same_reals<float>(a, b, bytes);
    case GPUCOLL_FLOAT64:
    case GPUCOLL_COMPLEX128:
        return same_reals<double>(a, b, bytes);
    default:
        return std::equal(a, a + bytes, b);
    }
}

template <typename T> static void sprinkle(char *buffer, size_t bytes, Random &random)
{
    using limits = std::numeric_limits<T>;
    const T specials[] = {0,
                          -T(0),
                          1,
                          -1,
                          limits::infinity(),
                          -limits::infinity(),
                          limits::quiet_NaN(),
                          limits::max(),
                          limits::min(),
                          limits::denorm_min(),
                          limits::epsilon(),
                          T(1) / 3,
                          -limits::max()};
    for (size_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
        uint32_t choice = random.below(40);
        if (choice < std::size(specials)) {
            memcpy(buffer + at, &specials[choice], sizeof(T));
        } else {
            T value =
                std::ldexp(T(static_cast<int64_t>(random.next())), static_cast<int>(random.below(60)) - 90);
            memcpy(buffer + at, &value, sizeof(T));
        }
    }
}

static void fill_hard(gpucoll_type type, char *buffer, size_t count, Random &random)
{
    size_t bytes = count * gpucoll_type_size(type);
    switch (type) {
    case GPUCOLL_FLOAT32:
    case GPUCOLL_COMPLEX64:
        return sprinkle<float>(buffer, bytes, random);
    case GPUCOLL_FLOAT64:
    case GPUCOLL_COMPLEX128:
        return sprinkle<double>(buffer, bytes, random);
    default:
        fill(type, buffer, count, random);
        /* Zeroes, so that the logical operators see both truths. */
        if (type <= GPUCOLL_UINT64) {
            for (size_t i = 0; i < count; i += 1 + random.below(4)) {
                memset(buffer + i * gpucoll_type_size(type), 0, gpucoll_type_size(type));
            }
        }
    }
}

struct Layout {
    size_t to;
    size_t a;
    size_t b;
    int in_place; /* 1: to is a; 2: to is b */
};

class reduce : public testing::TestWithParam<int>
{
  protected:
    static constexpr size_t guard = 64;

    void check(gpucoll_op op, gpucoll_type type, size_t count, const Layout &layout)
    {
        size_t bytes = count * gpucoll_type_size(type);
        std::vector<char> a(layout.a + bytes + guard);
        std::vector<char> b(layout.b + bytes + guard);
        std::vector<char> apart(layout.to + bytes + guard, '\x5a');
        std::vector<char> want(bytes);
        fill_hard(type, a.data() + layout.a, count, random);
        fill_hard(type, b.data() + layout.b, count, random);
        for (size_t i = 0; i < count; i++) {
            size_t at = i * gpucoll_type_size(type);
            reference(op, type, a.data() + layout.a + at, b.data() + layout.b + at, want.data() + at);
        }
        int functor = gpucoll_functor(op, type);
        char *to = layout.in_place == 1   ? a.data() + layout.a
                   : layout.in_place == 2 ? b.data() + layout.b
                                          : apart.data() + layout.to;
        std::vector<char> after(to + bytes, to + bytes + guard);
        gpucoll_host_reduce(functor, to, a.data() + layout.a, b.data() + layout.b,
                            bytes / gpucoll_host_functor_size(functor));
        EXPECT_TRUE(same(type, to, want.data(), bytes))
            << "count " << count << " offsets " << layout.to << ' ' << layout.a << ' ' << layout.b
            << " in place " << layout.in_place;
        EXPECT_EQ(memcmp(to + bytes, after.data(), guard), 0) << "wrote past the end";
        EXPECT_EQ(std::count(apart.begin(), apart.begin() + static_cast<long>(layout.to), '\x5a'),
                  static_cast<long>(layout.to));
    }

    Random random{20};
};

TEST_P(reduce, every_type_any_count_any_alignment_in_place_or_not)
{
    auto op = static_cast<gpucoll_op>(GetParam());
    const Layout layouts[] = {{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 0, 2}, {8, 8, 8, 0}, {1, 0, 0, 0},
                              {0, 3, 0, 0}, {0, 0, 2, 0}, {5, 5, 5, 1}, {4, 4, 1, 2}};
    for (int t = 0; t < GPUCOLL_TYPE_COUNT; t++) {
        auto type = static_cast<gpucoll_type>(t);
        if (gpucoll_functor(op, type) < 0) {
            continue;
        }
        SCOPED_TRACE(gpucoll_type_name(type));
        for (size_t count : {0, 1, 2, 3, 7, 16, 31, 100, 1023, 4099}) {
            for (const Layout &layout : layouts) {
                check(op, type, count, layout);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(ops, reduce, testing::Range(0, static_cast<int>(GPUCOLL_OP_COUNT)),
                         [](const auto &info) {
                             return gpucoll_op_name(static_cast<gpucoll_op>(info.param));
                         });

/* Every 16-bit value through every 16-bit functor with a few partners: all roundings, subnormals, overflows and NaNs. */
/* Every instruction set that this processor has, against the plain loops, on any bits. */
TEST(reduce_isa, gives_the_same_bits)
{
    Random random(17);
    constexpr size_t bytes = 4096 + 48;
    alignas(64) char a[bytes], b[bytes], expected[bytes], got[bytes];
    for (size_t i = 0; i < bytes; i++) {
        a[i] = static_cast<char>(random.next());
        b[i] = static_cast<char>(random.next());
    }
    const gpucoll_host_isa *isa;
    int rows = 0;
    for (; (isa = gpucoll_host_isa_row(rows)) != nullptr; rows++) {
        for (int functor = 0; functor < GPUCOLL_FUNCTOR_COUNT && isa->usable(); functor++) {
            const size_t count = bytes / isa->loops[functor].element_bytes;
            EXPECT_EQ(isa->loops[functor].unit_bytes, gpucoll_host_functor_size(functor));
            memset(expected, 0, bytes);
            memset(got, 0, bytes);
            gpucoll_host_loops_plain[functor].loop(expected, a, b, count);
            isa->loops[functor].loop(got, a, b, count);
            EXPECT_EQ(memcmp(expected, got, bytes), 0) << isa->name << ' ' << gpucoll_functor_name(functor);
        }
    }
    EXPECT_STREQ(gpucoll_host_isa_row(rows - 1)->name, "plain");
    EXPECT_EQ(gpucoll_host_isa_row(-1), nullptr);
}

TEST(reduce_16_bit, all_values)
{
    const uint16_t partners[] = {0x0000, 0x8000, 0x3c00, 0x3f80, 0x0001, 0x8001, 0x3800,
                                 0x3555, 0x7bff, 0x7f7f, 0x7c00, 0x7f80, 0x7fff, 0xfc01,
                                 0x0400, 0x0080, 0x4049, 0x1234, 0xb00f, 0x7e00};
    std::vector<uint16_t> all(65536);
    std::vector<uint16_t> other(65536);
    std::vector<uint16_t> got(65536);
    for (size_t i = 0; i < all.size(); i++) {
        all[i] = static_cast<uint16_t>(i);
    }
    for (gpucoll_type type : {GPUCOLL_FLOAT16, GPUCOLL_BFLOAT16}) {
        for (gpucoll_op op : {GPUCOLL_SUM, GPUCOLL_PROD, GPUCOLL_MAX, GPUCOLL_MIN}) {
            for (uint16_t partner : partners) {
                std::fill(other.begin(), other.end(), partner);
                gpucoll_host_reduce(gpucoll_functor(op, type), got.data(), all.data(), other.data(),
                                    all.size());
                for (size_t i = 0; i < all.size(); i++) {
                    uint16_t want;
                    small(op, type, reinterpret_cast<char *>(&all[i]), reinterpret_cast<char *>(&other[i]),
                          reinterpret_cast<char *>(&want));
                    ASSERT_EQ(got[i], want) << gpucoll_type_name(type) << ' ' << gpucoll_op_name(op) << ' '
                                            << std::hex << all[i] << ", " << partner;
                }
            }
        }
    }
}

TEST(reduce_nan, maximum_keeps_the_later_operand_and_drops_the_earlier)
{
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float a[] = {nan, 1, nan, 2};
    const float b[] = {1, nan, nan, 3};
    float to[4];
    gpucoll_host_reduce(gpucoll_functor(GPUCOLL_MAX, GPUCOLL_FLOAT32), to, a, b, 4);
    EXPECT_EQ(to[0], 1);
    EXPECT_TRUE(std::isnan(to[1]));
    EXPECT_TRUE(std::isnan(to[2]));
    EXPECT_EQ(to[3], 3);
}

TEST(reduce_pairs, equal_values_take_the_smaller_location)
{
    const int a[] = {5, 9, 5, 2, 5, 7};
    const int b[] = {5, 3, 5, 4, 6, 1};
    int to[6];
    gpucoll_host_reduce(gpucoll_functor(GPUCOLL_MAXLOC, GPUCOLL_INT_INT), to, a, b, 3);
    EXPECT_EQ(std::vector<int>(to, to + 6), (std::vector<int>{5, 3, 5, 2, 6, 1}));
    gpucoll_host_reduce(gpucoll_functor(GPUCOLL_MINLOC, GPUCOLL_INT_INT), to, a, b, 3);
    EXPECT_EQ(std::vector<int>(to, to + 6), (std::vector<int>{5, 3, 5, 2, 5, 7}));
}
