/*
 * Reductions in buffers that are used by call after call, so that peers reach into them from the second on; for tests of the algorithms that do.
 */
#ifndef GPUCOLL_TEST_UNIT_REDUCER_H
#define GPUCOLL_TEST_UNIT_REDUCER_H

#include <memory>
#include "test/unit/exchange_part.h"

struct Reduction {
    gpucoll_coll coll = GPUCOLL_ALLREDUCE;
    gpucoll_op op = GPUCOLL_SUM;
    gpucoll_type type = GPUCOLL_INT32;
    size_t count = 1; /* of a reduce-scatter: of each block */
    uint32_t root = 0;
    bool in_place = false;
    gpucoll_form form = GPUCOLL_FORM_BLOCKING; /* of a reduce */
    std::chrono::milliseconds pause = {};      /* of a reduce: between two looks of this rank */
};

/* Buffers of one rank that are used by call after call: from the second on peers write into them. */
class Reducer
{
  public:
    Reducer(Rank &rank, size_t bytes, size_t send_offset, size_t recv_offset)
        : rank(rank), send(std::make_unique<Buffer>(bytes, send_offset)),
          recv(std::make_unique<Buffer>(bytes, recv_offset))
    {
    }

    void check(const Reduction &call)
    {
        const uint32_t ranks = rank.meeting.size;
        const bool scatters = call.coll == GPUCOLL_REDUCE_SCATTER_BLOCK;
        const size_t total = call.count * (scatters ? ranks : 1);
        const size_t block = call.count * gpucoll_type_size(call.type);
        const bool receives = call.coll != GPUCOLL_REDUCE || rank.number == call.root;
        const bool in_place = call.in_place && receives;
        const std::vector<Bytes> inputs = make_inputs(call.type, total, ++calls, ranks);
        const Bytes &mine = inputs[rank.number];
        ASSERT_LE(mine.size(), recv->size());
        recv->poison();
        std::copy(mine.begin(), mine.end(), in_place ? recv->data() : send->data());
        SCOPED_TRACE(std::string(gpucoll_coll_name(call.coll)) + " of " + std::to_string(call.count) +
                     (in_place ? " in place" : "") + ", root " + std::to_string(call.root) + ", rank " +
                     std::to_string(rank.number));
        ASSERT_EQ(run(call, block, in_place, receives), GPUCOLL_OK);
        const Bytes all = reduce_in_order(call.op, call.type, inputs);
        const char *want = all.data() + (scatters ? rank.number * block : 0);
        if (receives) {
            EXPECT_TRUE(std::equal(want, want + block, recv->data()));
        }
        EXPECT_TRUE(in_place || std::equal(mine.begin(), mine.end(), send->data()))
            << "the input was changed";
        EXPECT_TRUE(send->guards_intact() && recv->guards_intact());
    }

    void check(const Reduction &call, int times)
    {
        for (int use = 0; use < times; use++) {
            check(call);
        }
    }

    /* From now on the results go where the inputs came from. */
    void turn_round() { std::swap(send, recv); }

    const char *sends_from() { return send->data(); }
    const char *receives_at() { return recv->data(); }

  private:
    gpucoll_status run(const Reduction &call, size_t block, bool in_place, bool receives)
    {
        const char *from = in_place ? recv->data() : send->data();
        if (call.coll == GPUCOLL_ALLREDUCE) {
            const void *given = in_place ? GPUCOLL_IN_PLACE : from;
            return rank.call(reduce_all(call.op, call.type, given, recv->data(), call.count));
        }
        std::vector<gpucoll_block> sent;
        const uint32_t blocks = call.coll == GPUCOLL_REDUCE ? 1 : rank.meeting.size;
        for (uint32_t i = 0; i < blocks; i++) {
            sent.push_back({static_cast<ptrdiff_t>(i * block), block});
        }
        const gpucoll_block received = {0, block};
        gpucoll_coll_args args = {};
        args.coll = call.coll;
        args.op = call.op;
        args.type = call.type;
        args.root = call.root;
        args.send = from;
        args.recv = recv->data();
        args.send_blocks = sent.data();
        args.recv_blocks = receives ? &received : nullptr;
        args.form = call.form;
        return rank.call(args, call.pause);
    }

    Rank &rank;
    std::unique_ptr<Buffer> send;
    std::unique_ptr<Buffer> recv;
    uint64_t calls = 0;
};

/* The collectives that reduce. */
constexpr gpucoll_coll reductions[] = {GPUCOLL_ALLREDUCE, GPUCOLL_REDUCE, GPUCOLL_REDUCE_SCATTER_BLOCK};

/* A reduce to each root, often enough that the buffers are known to all. */
inline void check_every_root(Rank &rank)
{
    Reducer reducer(rank, 1 << 20, 0, 0);
    Reduction call;
    call.coll = GPUCOLL_REDUCE;
    call.type = GPUCOLL_INT16;
    for (int use = 0; use < 4; use++) {
        for (call.root = 0; call.root < rank.meeting.size; call.root++) {
            call.count = 30000 + 7 * call.root;
            call.in_place = use % 2 == 1;
            reducer.check(call);
        }
    }
}

/* All pairs of an operator and a type, by the collectives in turn; returns how many. `count_of` has the call, but for its count, and its number. */
template <typename CountOf> size_t check_every_operator_and_type(Rank &rank, CountOf count_of)
{
    Reducer reducer(rank, 1 << 20, 0, 0);
    Reduction call;
    size_t number = 0;
    for (const NativePair &pair : native_pairs()) {
        call.op = pair.op;
        call.type = pair.type;
        call.coll = reductions[number % 3];
        call.root = static_cast<uint32_t>(number % rank.meeting.size);
        call.in_place = number % 2 == 1;
        call.count = count_of(call, number);
        number++;
        reducer.check(call);
    }
    return number;
}

/* All collectives in turn, each with and without MPI_IN_PLACE once the buffers are known; the last rank is the root. */
inline void check_in_turn(Rank &rank, size_t count)
{
    Reducer reducer(rank, 2 << 20, 0, 0);
    Reduction call;
    call.count = count;
    call.root = rank.meeting.size - 1;
    for (int use = 0; use < 4; use++) {
        for (gpucoll_coll coll : reductions) {
            call.coll = coll;
            call.in_place = use % 2 == 1;
            reducer.check(call);
        }
    }
}

/* How many calls this rank has run so. */
inline size_t runs_by(const Rank &rank, const std::string &way)
{
    size_t count = 0;
    for (const std::string &said : rank.log.lines()) {
        count += said.find("ran natively by " + way) != std::string::npos;
    }
    return count;
}

#endif
