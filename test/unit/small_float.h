/*
 * 16-bit floats by the list of all their values: slow, and written without the tricks of what it checks.
 */
#ifndef GPUCOLL_TEST_SMALL_FLOAT_H
#define GPUCOLL_TEST_SMALL_FLOAT_H

#include "test/unit/unit.h"

class SmallFloat
{
  public:
    SmallFloat(int exponent_bits, int fraction_bits);
    double decode(uint16_t bits) const;
    /* To nearest, ties to even bits; NaN becomes 0x7fff. */
    uint16_t encode(double value) const;
    /* The distance of 1 to the next value. */
    double epsilon() const;

    /* FLOAT16 or BFLOAT16. */
    static const SmallFloat &of(enum gpucoll_type type);

  private:
    int fraction_bits;
    uint32_t infinity;
    std::vector<double> values; /* non-negative, in order of their bits; the last stands for infinity */
};

#endif
