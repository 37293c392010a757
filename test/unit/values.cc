#include "test/unit/values.h"
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>
#include "test/unit/small_float.h"

/* ---- buffers ---- */

Buffer::Buffer(size_t bytes, size_t offset, enum gpucoll_memory memory)
    : bytes(bytes), whole_bytes(guard + offset + bytes + guard)
{
    whole = static_cast<char *>(gpucoll_host_malloc(whole_bytes, memory));
    begin = whole + guard + offset;
    memset(whole, 0x5a, whole_bytes);
    poison();
}

Buffer::~Buffer()
{
    gpucoll_host_free(whole);
}

void Buffer::poison()
{
    memset(begin, 0xcc, bytes);
}

bool Buffer::guards_intact() const
{
    auto is_guard = [](char byte) { return byte == 0x5a; };
    return std::all_of(whole, begin, is_guard) && std::all_of(begin + bytes, whole + whole_bytes, is_guard);
}

/* ---- inputs ---- */

template <typename T> static T load(const char *from)
{
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* Of either sign and of sizes from 1/2 to 2, so that products of a few ranks stay in the range of every type. */
static double some_real(Random &random)
{
    double size = 0.5 + 1.5 * static_cast<double>(random.next() >> 11) * 0x1p-53;
    return random.below(2) ? size : -size;
}

template <typename T> static void fill_reals(Bytes &bytes, Random &random)
{
    for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
        T value = static_cast<T>(some_real(random));
        memcpy(&bytes[at], &value, sizeof value);
    }
}

char byte_of(uint32_t from, uint32_t to, uint32_t round, size_t i)
{
    return static_cast<char>(i * 31 + i / 251 + from * 17 + to * 5 + round * 3 + 1);
}

Bytes make_input(enum gpucoll_type type, size_t count, uint64_t seed, uint32_t rank)
{
    Bytes bytes(count * gpucoll_type_size(type));
    Random random(seed * 64 + rank);
    switch (type) {
    case GPUCOLL_FLOAT16:
    case GPUCOLL_BFLOAT16:
        for (size_t at = 0; at < bytes.size(); at += 2) {
            uint16_t value = SmallFloat::of(type).encode(some_real(random));
            memcpy(&bytes[at], &value, sizeof value);
        }
        break;
    case GPUCOLL_FLOAT32:
    case GPUCOLL_COMPLEX64:
        fill_reals<float>(bytes, random);
        break;
    case GPUCOLL_FLOAT64:
    case GPUCOLL_COMPLEX128:
        fill_reals<double>(bytes, random);
        break;
    default:
        fill(type, bytes.data(), count, random);
    }
    return bytes;
}

std::vector<Bytes> make_inputs(enum gpucoll_type type, size_t count, uint64_t seed, uint32_t ranks)
{
    std::vector<Bytes> inputs;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        inputs.push_back(make_input(type, count, seed, rank));
    }
    return inputs;
}

/* ---- the reference: one element ---- */

using Parts = std::vector<const char *>;

template <typename T> static bool integer_ok(gpucoll_op op, const Parts &parts, const char *result)
{
    using U = std::make_unsigned_t<T>;
    /* Sums and products modulo 2^64 have the right low bits for every narrower type. */
    auto value = static_cast<uint64_t>(load<T>(parts[0]));
    auto best = load<T>(parts[0]);
    bool truth = load<T>(parts[0]) != 0;
    for (size_t i = 1; i < parts.size(); i++) {
        T next = load<T>(parts[i]);
        auto bits = static_cast<uint64_t>(next);
        value = op == GPUCOLL_SUM    ? value + bits
                : op == GPUCOLL_PROD ? value * bits
                : op == GPUCOLL_BAND ? value & bits
                : op == GPUCOLL_BOR  ? value | bits
                                     : value ^ bits;
        best = op == GPUCOLL_MAX ? std::max(best, next) : std::min(best, next);
        truth = op == GPUCOLL_LAND  ? truth && next != 0
                : op == GPUCOLL_LOR ? truth || next != 0
                                    : truth != (next != 0);
    }
    T want = op == GPUCOLL_MAX || op == GPUCOLL_MIN ? best
             : op == GPUCOLL_LAND || op == GPUCOLL_LOR || op == GPUCOLL_LXOR
                 ? static_cast<T>(parts.size() == 1 ? load<T>(parts[0]) : T(truth))
                 : static_cast<T>(static_cast<U>(value));
    return load<T>(result) == want;
}

/* Every operation may be wrong by half of epsilon of what it gives; twice that is allowed. */
static bool real_ok(gpucoll_op op, const std::vector<long double> &parts, long double result,
                    long double epsilon)
{
    long double sum = 0;
    long double sizes = 0;
    long double product = 1;
    for (long double part : parts) {
        sum += part;
        sizes += std::fabs(part);
        product *= part;
    }
    auto operations = static_cast<long double>(parts.size() - 1);
    switch (op) {
    case GPUCOLL_SUM:
        return std::fabs(result - sum) <= operations * epsilon * sizes;
    case GPUCOLL_PROD:
        return std::fabs(result - product) <= operations * epsilon * std::fabs(product);
    case GPUCOLL_MAX:
        return result == *std::max_element(parts.begin(), parts.end());
    default:
        return result == *std::min_element(parts.begin(), parts.end());
    }
}

template <typename T> static bool float_ok(gpucoll_op op, const Parts &parts, const char *result)
{
    std::vector<long double> values;
    for (const char *part : parts) {
        values.push_back(load<T>(part));
    }
    return real_ok(op, values, load<T>(result), std::numeric_limits<T>::epsilon());
}

static bool small_ok(gpucoll_op op, gpucoll_type type, const Parts &parts, const char *result)
{
    const SmallFloat &format = SmallFloat::of(type);
    std::vector<long double> values;
    for (const char *part : parts) {
        values.push_back(format.decode(load<uint16_t>(part)));
    }
    return real_ok(op, values, format.decode(load<uint16_t>(result)), format.epsilon());
}

template <typename T> static bool complex_ok(gpucoll_op op, const Parts &parts, const char *result)
{
    using Complex = std::complex<long double>;
    Complex value = 0;
    long double scale = 0;
    for (size_t i = 0; i < parts.size(); i++) {
        Complex next(load<T>(parts[i]), load<T>(parts[i] + sizeof(T)));
        bool sums = op == GPUCOLL_SUM || i == 0;
        value = sums ? value + next : value * next;
        scale = sums ? scale + std::abs(next) : scale * std::abs(next);
    }
    Complex got(load<T>(result), load<T>(result + sizeof(T)));
    /* A complex product is four roundings more than a real one. */
    auto operations = 4 * static_cast<long double>(parts.size() - 1);
    return std::abs(got - value) <= operations * std::numeric_limits<T>::epsilon() * scale;
}

template <typename V, typename L> static bool pair_ok(gpucoll_op op, const Parts &parts, const char *result)
{
    struct Pair {
        V value;
        L location;
    };
    Pair best = load<Pair>(parts[0]);
    for (const char *part : parts) {
        Pair next = load<Pair>(part);
        bool better = op == GPUCOLL_MAXLOC ? next.value > best.value : next.value < best.value;
        if (better || (next.value == best.value && next.location < best.location)) {
            best = next;
        }
    }
    Pair got = load<Pair>(result);
    return got.value == best.value && got.location == best.location;
}

static bool element_ok(gpucoll_op op, gpucoll_type type, const Parts &parts, const char *result)
{
    switch (type) {
    case GPUCOLL_INT8:
        return integer_ok<int8_t>(op, parts, result);
    case GPUCOLL_INT16:
        return integer_ok<int16_t>(op, parts, result);
    case GPUCOLL_INT32:
        return integer_ok<int32_t>(op, parts, result);
    case GPUCOLL_INT64:
        return integer_ok<int64_t>(op, parts, result);
    case GPUCOLL_UINT8:
        return integer_ok<uint8_t>(op, parts, result);
    case GPUCOLL_UINT16:
        return integer_ok<uint16_t>(op, parts, result);
    case GPUCOLL_UINT32:
        return integer_ok<uint32_t>(op, parts, result);
    case GPUCOLL_UINT64:
        return integer_ok<uint64_t>(op, parts, result);
    case GPUCOLL_FLOAT16:
    case GPUCOLL_BFLOAT16:
        return small_ok(op, type, parts, result);
    case GPUCOLL_FLOAT32:
        return float_ok<float>(op, parts, result);
    case GPUCOLL_FLOAT64:
        return float_ok<double>(op, parts, result);
    case GPUCOLL_COMPLEX64:
        return complex_ok<float>(op, parts, result);
    case GPUCOLL_COMPLEX128:
        return complex_ok<double>(op, parts, result);
    case GPUCOLL_SHORT_INT:
        return pair_ok<int16_t, int32_t>(op, parts, result);
    case GPUCOLL_INT_INT:
        return pair_ok<int32_t, int32_t>(op, parts, result);
    case GPUCOLL_LONG_INT:
        return pair_ok<int64_t, int32_t>(op, parts, result);
    case GPUCOLL_FLOAT_INT:
        return pair_ok<float, int32_t>(op, parts, result);
    case GPUCOLL_DOUBLE_INT:
        return pair_ok<double, int32_t>(op, parts, result);
    case GPUCOLL_FLOAT_FLOAT:
        return pair_ok<float, float>(op, parts, result);
    case GPUCOLL_DOUBLE_DOUBLE:
        return pair_ok<double, double>(op, parts, result);
    default:
        return false;
    }
}

/* ---- whole messages ---- */

testing::AssertionResult reduces(enum gpucoll_op op, enum gpucoll_type type, const std::vector<Bytes> &inputs,
                                 const char *result)
{
    size_t size = gpucoll_type_size(type);
    Parts parts(inputs.size());
    for (size_t at = 0; at < inputs[0].size(); at += size) {
        for (size_t rank = 0; rank < inputs.size(); rank++) {
            parts[rank] = &inputs[rank][at];
        }
        if (!element_ok(op, type, parts, result + at)) {
            return testing::AssertionFailure() << gpucoll_op_name(op) << " of " << inputs[0].size() / size
                                               << ' ' << gpucoll_type_name(type) << " on " << inputs.size()
                                               << " ranks: element " << at / size << " is wrong";
        }
    }
    return testing::AssertionSuccess();
}

Bytes reduce_in_order(enum gpucoll_op op, enum gpucoll_type type, const std::vector<Bytes> &inputs)
{
    int functor = gpucoll_functor(op, type);
    Bytes result = inputs[0];
    for (size_t rank = 1; rank < inputs.size(); rank++) {
        gpucoll_host_reduce(functor, result.data(), result.data(), inputs[rank].data(),
                            result.size() / gpucoll_host_functor_size(functor));
    }
    return result;
}
