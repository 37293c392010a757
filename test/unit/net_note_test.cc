/*
 * ucx_tl/rdma/withdraw: notes by which messages are taken back, and that wait for room on the connection.
 */
#include "test/unit/net_ends.h"

extern "C" {
#include "test/unit/held_note.h"
}

/* The message meets its receive after all, and other messages follow: the note must not name one of these, which the receiver would drop. */
TEST(net_note, that_waits_names_its_own_message)
{
    UcxSetting waits_for_its_receive("UCX_RNDV_THRESH",
                                     "64K"); /* UCX 1.18.1 copies messages of this length, too */
    Net a("lo");
    OPEN(a);
    Net b("lo");
    ASSERT_EQ(b.status, GPUCOLL_OK);
    struct gpucoll_net_peer *to_b = a.connect(b);
    test_hold_notes(a.net);
    for (uint64_t tag : {5, 6}) {
        Message taken_back(4 << 20, 1);
        Message received(4 << 20);
        taken_back.send(a, to_b, tag);
        until(
            a, b, [] { return false; }, 0.02);
        ASSERT_FALSE(ended(a, taken_back));
        ops->begin_cancel(a.net, &taken_back);
        received.receive(b, tag);
        ASSERT_TRUE(until(a, b, [&] { return ended(a, taken_back) && ended(b, received); }));
        EXPECT_EQ(taken_back.status, GPUCOLL_OK);
        Message next(8, 2);
        Message next_received(8);
        next.send(a, to_b, 100 + tag);
        EXPECT_EQ(test_let_note_go(), tag);
        next_received.receive(b, 100 + tag);
        ASSERT_TRUE(until(a, b, [&] { return ended(a, next) && ended(b, next_received); }));
        EXPECT_TRUE(next.data == next_received.data);
    }
    EXPECT_TRUE(a.log.topics().empty());
    ops->disconnect(a.net, to_b);
}
