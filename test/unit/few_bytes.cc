#include "test/unit/few_bytes.h"

#include <atomic>

const std::vector<Hosts> few_shapes = {
    hosts_of({2, 2}), hosts_of({1, 1}),      hosts_of({3, 1}),          hosts_of({1, 2, 3}),
    {0, 1, 0, 1},     {1, 0, 2, 1, 1, 0, 2}, hosts_of({1, 1, 1, 1, 1}),
};

const Kind reduce_kind = {GPUCOLL_REDUCE, TO_ROOT, false, false, false};
const Kind bcast_kind = {GPUCOLL_BCAST, FROM_ROOT, false, false, false};

namespace
{
std::atomic<unsigned> sends;
std::atomic<size_t> sent_bytes;
} // namespace

const gpucoll_net_ops *counting_net()
{
    static gpucoll_net_ops counting = fake_net;
    counting.send = [](gpucoll_net *net, gpucoll_net_peer *peer, uint64_t tag, const void *data, size_t bytes,
                       gpucoll_net_memory *memory, gpucoll_net_message *message) {
        sends++;
        sent_bytes += bytes;
        fake_net.send(net, peer, tag, data, bytes, memory, message);
    };
    return &counting;
}

Traffic traffic_in(Rank &rank, const std::function<void()> &body)
{
    rank.barrier();
    const Traffic before = {sends, sent_bytes};
    rank.barrier();
    body();
    rank.barrier();
    const Traffic after = {sends, sent_bytes};
    rank.barrier();
    return {after.messages - before.messages, after.bytes - before.bytes};
}

Traffic traffic_of(const Hosts &hosts, const Settings &settings, const Body &body)
{
    Traffic counted = {0, 0};
    on_hosts(
        hosts, settings,
        [&](Rank &rank) {
            body(rank);
            const Traffic traffic = traffic_in(rank, [&] { body(rank); });
            if (rank.number == 0) {
                counted = traffic;
            }
        },
        false, counting_net());
    return counted;
}

unsigned messages_of(const Hosts &hosts, const Settings &settings, const Body &body)
{
    return traffic_of(hosts, settings, body).messages;
}

void check_reductions(Rank &rank, gpucoll_op op, gpucoll_type type, size_t count, size_t offset)
{
    const std::vector<Bytes> inputs = make_inputs(type, count, count * 99 + op, rank.meeting.size);
    const Bytes &mine = inputs[rank.number];
    for (bool in_place : {false, true}) {
        Buffer send(mine.size(), offset);
        Buffer recv(mine.size(), offset);
        std::copy(mine.begin(), mine.end(), in_place ? recv.data() : send.data());
        EXPECT_EQ(
            rank.call(reduce_all(op, type, in_place ? GPUCOLL_IN_PLACE : send.data(), recv.data(), count)),
            GPUCOLL_OK);
        EXPECT_TRUE(reduces(op, type, inputs, recv.data())) << gpucoll_op_name(op) << gpucoll_type_name(type);
        EXPECT_TRUE(send.guards_intact() && recv.guards_intact());
        EXPECT_TRUE(rank.agree(recv.data(), recv.size())) << "ranks have different bits";
    }
}

void check_rooted(Rank &rank, const Kind &kind, size_t count)
{
    for (uint32_t root = 0; root < rank.meeting.size; root++) {
        for (bool in_place : {false, true}) {
            ExchangeCall call = call_of(kind, count);
            call.root = root;
            call.in_place = in_place;
            call.offset = root % 2;
            check(rank, call);
        }
    }
}
