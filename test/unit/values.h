/*
 * What goes into an all-reduce and what must come out: inputs that every rank can make for all ranks, and a reference that
 * reduces them another way than gpucoll does.
 */
#ifndef GPUCOLL_TEST_VALUES_H
#define GPUCOLL_TEST_VALUES_H

#include "test/unit/unit.h"

/* Memory at any alignment, of a kind, with guards before and behind. */
class Buffer
{
  public:
    explicit Buffer(size_t bytes, size_t offset = 0, enum gpucoll_memory memory = GPUCOLL_MEMORY_DEVICE);
    ~Buffer();
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    char *data() const { return begin; }
    size_t size() const { return bytes; }
    void poison();
    bool guards_intact() const;

  private:
    static constexpr size_t guard = 64;
    char *whole;
    char *begin;
    size_t bytes;
    size_t whole_bytes;
};

using Bytes = std::vector<char>;

/* Byte i of what a rank sends to another in a round. */
char byte_of(uint32_t from, uint32_t to, uint32_t round, size_t i);

/* The input of one rank: the same for the same seed on every rank and in every run. */
Bytes make_input(enum gpucoll_type type, size_t count, uint64_t seed, uint32_t rank);
std::vector<Bytes> make_inputs(enum gpucoll_type type, size_t count, uint64_t seed, uint32_t ranks);

/* Is `result` the reduction of the inputs? Integers and pairs to the bit, floating point within the rounding that n operations
 * of its precision can bring, against long double. */
testing::AssertionResult reduces(enum gpucoll_op op, enum gpucoll_type type, const std::vector<Bytes> &inputs,
                                 const char *result);

/* The reduction in rank order by gpucoll_host_reduce: what every algorithm has to give to the bit. */
Bytes reduce_in_order(enum gpucoll_op op, enum gpucoll_type type, const std::vector<Bytes> &inputs);

#endif
