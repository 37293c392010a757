/*
 * An all-reduce that knows its result.
 */
#ifndef GPUCOLL_TEST_SUM_H
#define GPUCOLL_TEST_SUM_H

#include <algorithm>
#include "test/unit/ranks.h"
#include "test/unit/values.h"

/* A sum of int32 that knows its result: every rank brings rank + salt + i. */
class Sum
{
  public:
    Sum(const Rank &rank, size_t count, int salt, gpucoll_memory send_memory = GPUCOLL_MEMORY_DEVICE,
        gpucoll_memory recv_memory = GPUCOLL_MEMORY_DEVICE)
        : send(count * 4, 0, send_memory), recv(count * 4, 0, recv_memory),
          ranks(static_cast<int>(rank.meeting.size)), salt(salt)
    {
        for (size_t i = 0; i < count; i++) {
            ints(send)[i] = static_cast<int>(rank.number + i) + salt;
        }
        args = reduce_all(GPUCOLL_SUM, GPUCOLL_INT32, send.data(), recv.data(), count);
    }

    bool right() const
    {
        for (size_t i = 0; i < args.count; i++) {
            if (ints(recv)[i] != ranks * (ranks - 1) / 2 + ranks * (static_cast<int>(i) + salt)) {
                return false;
            }
        }
        return recv.guards_intact();
    }

    bool untouched() const
    {
        const auto *at = reinterpret_cast<const unsigned char *>(recv.data());
        return std::all_of(at, at + recv.size(), [](unsigned char byte) { return byte == 0xcc; });
    }

    gpucoll_coll_args args;

  private:
    static int *ints(const Buffer &buffer) { return reinterpret_cast<int *>(buffer.data()); }
    Buffer send;
    Buffer recv;
    int ranks;
    int salt;
};

/* A sum of so many elements, checked. */
inline void sum_of(Rank &rank, size_t count)
{
    Sum sum(rank, count, 5);
    EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
    EXPECT_TRUE(sum.right());
}

#endif
