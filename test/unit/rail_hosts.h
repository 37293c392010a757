/*
 * Ranks of a rail, all in this process, and a collective of theirs that knows its result.
 */
#ifndef GPUCOLL_TEST_RAIL_HOSTS_H
#define GPUCOLL_TEST_RAIL_HOSTS_H

#include <algorithm>
#include <cstring>
#include "test/unit/fake_net.h"
#include "test/unit/values.h"

extern "C" {
#include "core/rail/rail_run.h"
}

namespace rails
{

/* One rank of each of so many hosts, connected. */
class Hosts
{
  public:
    explicit Hosts(uint32_t size, uint64_t seed = 1, const gpucoll_net_ops *ops = &fake_net)
        : rails(size), random(seed), size(size), ops(ops)
    {
        gpucoll_config_init(&config);
        EXPECT_EQ(gpucoll_config_set(&config, "net_devices", "lo"), GPUCOLL_OK);
        peer.resize(size, std::vector<gpucoll_net_peer *>(size));
        ids.resize(size);
        for (uint32_t rank = 0; rank < size; rank++) {
            ids[rank] = 1000 + 7 * rank;
            rails[rank].ops = ops;
            status = ops->open(&config, log.get(), &fake_net_place, &rails[rank].net);
            if (status != GPUCOLL_OK) {
                rails.resize(rank);
                return;
            }
            if (ops == &fake_net) {
                fake_net_shake(rails[rank].net, seed * 100 + rank);
            }
        }
        for (uint32_t rank = 0; rank < size; rank++) {
            connect(rank);
        }
    }
    Hosts(const Hosts &) = delete;
    Hosts &operator=(const Hosts &) = delete;

    ~Hosts()
    {
        for (gpucoll_rail &rail : rails) {
            gpucoll_rail_close(&rail);
            for (gpucoll_net_peer *other : peer[rail.rank]) {
                if (other != nullptr) {
                    ops->disconnect(rail.net, other);
                }
            }
        }
        EXPECT_EQ(fake_net_count().under_way, 0u);
        EXPECT_TRUE(fake_net_count().unclaimed == 0 || broken);
        for (gpucoll_rail &rail : rails) {
            ops->close(rail.net);
        }
        EXPECT_TRUE(fake_net_count().nothing());
    }

    /* Tests runs, one of each rank or NULL, in random order until all are final. */
    std::vector<gpucoll_status> finish(std::vector<gpucoll_rail_run *> &runs)
    {
        std::vector<gpucoll_status> statuses(runs.size(), GPUCOLL_IN_PROGRESS);
        size_t left = runs.size();
        for (uint64_t looks = 0; left > 0 && looks < 100000000; looks++) {
            const size_t i = random.below(static_cast<uint32_t>(runs.size()));
            if (statuses[i] == GPUCOLL_IN_PROGRESS) {
                uint32_t missing = 0;
                statuses[i] = gpucoll_rail_test(runs[i], &missing);
                EXPECT_LT(missing, size);
                left -= statuses[i] != GPUCOLL_IN_PROGRESS;
            }
        }
        for (size_t i = 0; i < runs.size(); i++) {
            if (statuses[i] != GPUCOLL_OK) {
                gpucoll_rail_cancel(runs[i]);
            }
        }
        return statuses;
    }

    std::vector<gpucoll_rail> rails;
    Random random;
    const uint32_t size;
    gpucoll_status status = GPUCOLL_OK; /* of the network */
    RecordingLog log;
    bool broken = false; /* runs were given up: messages may be left that nobody wants */

  private:
    void connect(uint32_t rank)
    {
        for (uint32_t other = 0; other < size; other++) {
            gpucoll_net_address address;
            ops->address(rails[other].net, &address);
            if (other != rank) {
                EXPECT_EQ(ops->connect(rails[rank].net, &address, &peer[rank][other]), GPUCOLL_OK);
            }
        }
        rails[rank].rank = rank;
        rails[rank].size = size;
        rails[rank].id = ids[rank];
        rails[rank].peer = peer[rank].data();
        rails[rank].peer_id = ids.data();
    }

    const gpucoll_net_ops *ops;
    gpucoll_config config;
    std::vector<std::vector<gpucoll_net_peer *>> peer;
    std::vector<uint32_t> ids;
};

struct Kind {
    gpucoll_op op;
    gpucoll_type type;
};

/* A call on all ranks: what they bring and what must come out. */
class Call
{
  public:
    Call(Hosts &hosts, gpucoll_rail_coll coll, gpucoll_rail_algorithm algorithm, Kind kind, size_t count,
         uint64_t seed)
        : hosts(hosts), kind(kind), unit(gpucoll_type_size(kind.type)),
          inputs(make_inputs(kind.type, count, seed, hosts.size)), data(inputs), runs(hosts.size)
    {
        Random random(seed + 99);
        args = {coll,
                algorithm,
                gpucoll_functor(kind.op, kind.type),
                random.below(hosts.size),
                nullptr,
                count * unit,
                nullptr,
                nullptr,
                nullptr};
        if (coll == GPUCOLL_RAIL_ALLGATHER || coll == GPUCOLL_RAIL_REDUCE_SCATTER) {
            divide(count, random);
        }
        if (coll == GPUCOLL_RAIL_ALLGATHER || coll == GPUCOLL_RAIL_BCAST) {
            keep_own();
        }
        for (Bytes &of_rank : data) {
            of_rank.resize(coll == GPUCOLL_RAIL_EXSCAN ? gpucoll_rail_second(args.bytes) + args.bytes
                                                       : of_rank.size());
        }
    }

    gpucoll_status start(uint32_t rank)
    {
        gpucoll_rail_args mine = args;
        mine.data = data[rank].data();
        return gpucoll_rail_start(&hosts.rails[rank], &mine, &runs[rank]);
    }

    void start_all()
    {
        for (uint32_t rank = 0; rank < hosts.size; rank++) {
            ASSERT_EQ(start(rank), GPUCOLL_OK);
        }
    }

    void run()
    {
        start_all();
        for (gpucoll_status status : hosts.finish(runs)) {
            ASSERT_EQ(status, GPUCOLL_OK);
        }
    }

    void check() const
    {
        switch (args.coll) {
        case GPUCOLL_RAIL_REDUCE:
            EXPECT_TRUE(reduces(kind.op, kind.type, inputs, data[args.root].data()));
            break;
        case GPUCOLL_RAIL_BCAST:
            all_have(inputs[args.root]);
            break;
        case GPUCOLL_RAIL_ALLREDUCE:
            EXPECT_TRUE(reduces(kind.op, kind.type, inputs, data[0].data()));
            all_have(data[0]);
            break;
        case GPUCOLL_RAIL_ALLGATHER:
            all_have(own_blocks(inputs));
            break;
        case GPUCOLL_RAIL_REDUCE_SCATTER:
            EXPECT_TRUE(reduces(kind.op, kind.type, inputs, own_blocks(data).data()));
            break;
        case GPUCOLL_RAIL_SCAN:
        case GPUCOLL_RAIL_EXSCAN:
            check_scan();
            break;
        default:
            break;
        }
    }

    /* Each rank's block from what that rank has. */
    Bytes own_blocks(const std::vector<Bytes> &of) const
    {
        Bytes result;
        for (uint32_t rank = 0; rank < hosts.size; rank++) {
            auto begin = of[rank].begin() + static_cast<ptrdiff_t>(result.size());
            result.insert(result.end(), begin, begin + static_cast<ptrdiff_t>(blocks[rank]));
        }
        return result;
    }

    Hosts &hosts;
    const Kind kind;
    const size_t unit;
    const std::vector<Bytes> inputs;
    std::vector<Bytes> data;
    std::vector<gpucoll_rail_run *> runs;
    gpucoll_rail_args args;

  private:
    /* Blocks of random lengths, some of them empty. */
    void divide(size_t count, Random &random)
    {
        std::vector<uint64_t> ends;
        for (uint32_t rank = 1; rank < hosts.size; rank++) {
            ends.push_back(random.below(static_cast<uint32_t>(count + 1)));
        }
        if (ends.size() > 3) {
            ends[1] = ends[0];
        }
        ends.push_back(count);
        std::sort(ends.begin(), ends.end());
        uint64_t begin = 0;
        for (uint64_t end : ends) {
            blocks.push_back((end - begin) * unit);
            begin = end;
        }
        args.blocks = blocks.data();
        args.bytes = 12345; /* not looked at */
    }

    /* Only what the call reads stays. */
    void keep_own()
    {
        size_t begin = 0;
        for (uint32_t rank = 0; rank < hosts.size; rank++) {
            std::fill(data[rank].begin(), data[rank].end(), char(0x77));
            if (args.coll == GPUCOLL_RAIL_ALLGATHER) {
                std::copy_n(inputs[rank].begin() + static_cast<ptrdiff_t>(begin), blocks[rank],
                            data[rank].begin() + static_cast<ptrdiff_t>(begin));
                begin += blocks[rank];
            } else if (rank == args.root) {
                data[rank] = inputs[rank];
            }
        }
    }

    void check_scan() const
    {
        const bool exclusive = args.coll == GPUCOLL_RAIL_EXSCAN;
        for (uint32_t rank = exclusive; rank < hosts.size; rank++) {
            const std::vector<Bytes> up_to(inputs.begin(), inputs.begin() + rank + !exclusive);
            const char *result = data[rank].data() + (exclusive ? gpucoll_rail_second(args.bytes) : 0);
            EXPECT_TRUE(reduces(kind.op, kind.type, up_to, result)) << "rank " << rank;
        }
    }

    void all_have(const Bytes &expected) const
    {
        for (uint32_t rank = 0; rank < hosts.size; rank++) {
            EXPECT_TRUE(data[rank] == expected) << "rank " << rank;
        }
    }

    std::vector<uint64_t> blocks;
};

} // namespace rails

#endif
