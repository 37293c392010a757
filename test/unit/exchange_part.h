/*
 * One rank's part of an exchange, for tests of every collective but all-reduce.
 */
#ifndef GPUCOLL_TEST_EXCHANGE_PART_H
#define GPUCOLL_TEST_EXCHANGE_PART_H

#include <memory>
#include "test/unit/ranks.h"
#include "test/unit/values.h"

enum Shape { ALL_TO_ALL, TO_ROOT, FROM_ROOT, UPWARDS };

struct Kind {
    gpucoll_coll coll;
    Shape shape;
    bool send_each;
    bool recv_each;
    bool own_counts; /* blocks of the ranks differ */
};

extern const std::vector<Kind> kinds;
const Kind &kind_of(gpucoll_coll coll); /* one of those */

struct ExchangeCall {
    Kind kind;
    uint32_t root = 0;
    gpucoll_op op = GPUCOLL_SUM;
    gpucoll_type type = GPUCOLL_UINT8;
    size_t count = 1;
    size_t offset = 0;
    bool in_place = false;
};

bool can_be_in_place(gpucoll_coll coll);

/* One rank's part of a call: its buffers, its blocks, and what the receive buffer must hold in the end. */
class ExchangePart
{
  public:
    ExchangePart(const ExchangeCall &call, uint32_t rank, uint32_t ranks,
                 gpucoll_memory send_memory = GPUCOLL_MEMORY_DEVICE,
                 gpucoll_memory recv_memory = GPUCOLL_MEMORY_DEVICE)
        : call(call), rank(rank), ranks(ranks), reduces(gpucoll_coll_reduces(call.kind.coll)),
          in_place(call.in_place && can_be_in_place(call.kind.coll) && (!rooted() || rank == call.root))
    {
        const bool sends = call.kind.shape != FROM_ROOT || rank == call.root;
        list(send_blocks, sends, call.kind.send_each, true);
        list(recv_blocks, receives(), call.kind.recv_each, false);
        send = std::make_unique<Buffer>(bytes(send_blocks), call.offset, send_memory);
        recv = std::make_unique<Buffer>(bytes(recv_blocks), call.offset, recv_memory);
        fill();
        expect();
        if (in_place) {
            share();
        }
    }

    gpucoll_coll_args args() const
    {
        gpucoll_coll_args args = {};
        args.coll = call.kind.coll;
        args.op = call.op;
        args.type = call.type;
        args.send = in_place ? recv->data() : send->data();
        args.recv = recv->data();
        args.root = call.root;
        args.send_blocks = send_blocks.empty() ? nullptr : send_blocks.data();
        args.recv_blocks = recv_blocks.empty() ? nullptr : recv_blocks.data();
        return args;
    }

    bool right() const
    {
        bool same = std::equal(expected.begin(), expected.end(), recv->data());
        bool kept = in_place || std::equal(sent.begin(), sent.end(), send->data());
        return same && kept && send->guards_intact() && recv->guards_intact();
    }

    void poison()
    {
        if (!in_place)
            recv->poison();
    }

    std::string text() const
    {
        return std::string(gpucoll_coll_name(call.kind.coll)) + " rank " + std::to_string(rank) + " of " +
               std::to_string(ranks) + " root " + std::to_string(call.root) + " count " +
               std::to_string(call.count) + " offset " + std::to_string(call.offset) +
               (in_place ? " in place" : "");
    }

  private:
    bool rooted() const { return call.kind.shape == TO_ROOT || call.kind.shape == FROM_ROOT; }

    bool receives() const
    {
        switch (call.kind.shape) {
        case TO_ROOT:
            return rank == call.root;
        case FROM_ROOT: /* in place, the root keeps its part where it is; of a bcast it always does */
            return rank != call.root || (call.kind.coll != GPUCOLL_BCAST && !in_place);
        case UPWARDS:
            return call.kind.coll == GPUCOLL_SCAN || rank > 0;
        default:
            return true;
        }
    }

    /* Elements that go from one rank to another. */
    size_t elements(uint32_t from, uint32_t to) const
    {
        if (!call.kind.own_counts) {
            return call.count;
        }
        uint32_t key = call.kind.shape == FROM_ROOT || reduces ? to
                       : call.kind.recv_each && call.kind.send_each
                           ? (from < to ? from * 7 + to : to * 7 + from) /* in place, both ways alike */
                           : from;
        return key % 3 == 1 ? 0 : call.count * (1 + key % 5) / 3;
    }

    void list(std::vector<gpucoll_block> &blocks, bool any, bool each, bool sending)
    {
        ptrdiff_t at = 0;
        for (uint32_t i = 0; any && i < (each ? ranks : 1); i++) {
            uint32_t other = each ? i : rank;
            size_t size =
                (sending ? elements(rank, other) : elements(other, rank)) * gpucoll_type_size(call.type);
            blocks.push_back({at, size});
            at += static_cast<ptrdiff_t>(size) + (call.kind.own_counts && !reduces ? 5 : 0); /* a gap */
        }
    }

    static size_t bytes(const std::vector<gpucoll_block> &blocks)
    {
        return blocks.empty() ? 0 : static_cast<size_t>(blocks.back().offset) + blocks.back().bytes;
    }

    /* What `from` sends to `to`. */
    Bytes data(uint32_t from, uint32_t to) const
    {
        uint64_t seed = call.count * 7919 + call.kind.coll * 31 + (call.kind.send_each ? to + 1 : 0);
        return make_input(call.type, elements(from, to), seed, from);
    }

    void fill()
    {
        for (uint32_t i = 0; i < send_blocks.size(); i++) {
            Bytes block = data(rank, call.kind.send_each ? i : rank);
            std::copy(block.begin(), block.end(), send->data() + send_blocks[i].offset);
        }
        sent.assign(send->data(), send->data() + send->size());
    }

    void expect()
    {
        expected.assign(recv->data(), recv->data() + recv->size());
        std::vector<Bytes> inputs;
        for (uint32_t i = 0; reduces && i < ranks; i++) {
            if (call.kind.shape != UPWARDS || i < rank || (i == rank && call.kind.coll == GPUCOLL_SCAN)) {
                inputs.push_back(data(i, rank));
            }
        }
        for (uint32_t i = 0; i < recv_blocks.size(); i++) {
            uint32_t source = call.kind.recv_each ? i : call.root;
            Bytes block = reduces ? reduce_in_order(call.op, call.type, inputs) : data(source, rank);
            std::copy(block.begin(), block.end(), expected.begin() + recv_blocks[i].offset);
        }
    }

    /* The blocks to send move into the receive buffer. */
    void share()
    {
        if (call.kind.shape == FROM_ROOT) { /* scatter: nothing is received */
            recv.swap(send);
            expected = sent;
            return;
        }
        if (reduces &&
            call.kind.send_each) { /* the result takes the place of what goes to rank 0, and of more */
            recv.swap(send);
            sent.swap(expected);
            std::copy(sent.begin(), sent.end(), expected.begin());
            return;
        }
        for (uint32_t i = 0; i < send_blocks.size(); i++) {
            gpucoll_block &block = send_blocks[i];
            /* Where nothing is received (exscan's first rank) the receive buffer is the input all the same.
             */
            if (recv_blocks.empty()) {
                recv.swap(send);
                expected = sent;
                return;
            }
            ptrdiff_t to = recv_blocks[call.kind.send_each ? i : call.kind.recv_each ? rank : 0].offset;
            std::copy_n(send->data() + block.offset, block.bytes, recv->data() + to);
            block.offset = to;
        }
    }

    ExchangeCall call;
    uint32_t rank;
    uint32_t ranks;
    bool reduces;
    bool in_place;
    std::vector<gpucoll_block> send_blocks;
    std::vector<gpucoll_block> recv_blocks;
    std::unique_ptr<Buffer> send;
    std::unique_ptr<Buffer> recv;
    Bytes sent;
    Bytes expected;
};

void check(Rank &rank, const ExchangeCall &call);
/* As it is; and in place, with buffers that are not aligned. */
void check_both_places(Rank &rank, ExchangeCall call);
ExchangeCall call_of(const Kind &kind, size_t count);

#endif
