#include "test/unit/small_float.h"
#include <algorithm>
#include <cmath>

SmallFloat::SmallFloat(int exponent_bits, int fraction_bits)
    : fraction_bits(fraction_bits), infinity(((1u << exponent_bits) - 1) << fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    for (uint32_t bits = 0; bits <= infinity; bits++) {
        int exponent = static_cast<int>(bits >> fraction_bits);
        double fraction = bits & ((1u << fraction_bits) - 1);
        double hidden = exponent > 0 ? 1 << fraction_bits : 0;
        values.push_back(ldexp(fraction + hidden, std::max(exponent, 1) - bias - fraction_bits));
    }
}

double SmallFloat::decode(uint16_t bits) const
{
    uint32_t body = bits & 0x7fff;
    double value = body > infinity ? NAN : body == infinity ? INFINITY : values[body];
    return bits & 0x8000 ? -value : value;
}

uint16_t SmallFloat::encode(double value) const
{
    if (std::isnan(value)) {
        return 0x7fff;
    }
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    double size = std::fabs(value);
    if (size >= values.back()) {
        return static_cast<uint16_t>(sign | infinity);
    }
    auto above = static_cast<uint32_t>(std::upper_bound(values.begin(), values.end(), size) - values.begin());
    uint32_t below = above - 1;
    double down = size - values[below];
    double up = values[above] - size;
    uint32_t nearest = down < up ? below : up < down ? above : below % 2 == 0 ? below : above;
    return static_cast<uint16_t>(sign | nearest);
}

double SmallFloat::epsilon() const
{
    return ldexp(1, -fraction_bits);
}

const SmallFloat &SmallFloat::of(enum gpucoll_type type)
{
    static const SmallFloat half(5, 10);
    static const SmallFloat brain(8, 7);
    return type == GPUCOLL_FLOAT16 ? half : brain;
}
