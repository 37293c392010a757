/*
 * Ranks of several hosts that do not come, give up, or die: the others are told, and say whom they missed.
 */
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include "test/unit/exchange_part.h"
#include "test/unit/hosts.h"
#include "test/unit/sum.h"

using Clock = std::chrono::steady_clock;

namespace
{
/* What was said last, after why a message failed, names the call and these ranks. */
void expect_named(Rank &rank, const std::string &missing)
{
    ASSERT_FALSE(rank.log.topics().empty());
    const std::string topic = rank.log.topics().back();
    const std::string text = rank.log.text_of(topic);
    const std::string ranks = topic == "peer-lost" || topic == "peer-died"
                                  ? "rank " + missing
                                  : "Missing ranks:  " + missing + "\n";
    for (const std::string &words : {ranks, std::string("allreduce"), std::string("team 0\n")}) {
        EXPECT_NE(text.find(words), std::string::npos) << words << " is not in: " << text;
    }
}
} // namespace

namespace
{
/* Ranks of these hosts call, but one: each of the others is to name it, or one that has given up before. */
void expect_missing(const Hosts &hosts, uint32_t missing, bool in_barrier)
{
    on_hosts(hosts, {{"timeout", "1"}}, [&](Rank &rank) {
        Sum first(rank, 100, 0);
        EXPECT_EQ(rank.call(first.args), GPUCOLL_OK);
        if (rank.number != missing) {
            Sum sum(rank, 100, 1);
            const auto begin = Clock::now();
            EXPECT_EQ(in_barrier ? enter_barrier(rank.team) : rank.call(sum.args), GPUCOLL_ERR_TIMEOUT);
            if (std::count(hosts.begin(), hosts.end(), hosts[rank.number]) == 1) {
                /* It can only wait for another host, which is given an eighth more. */
                EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(1125));
            }
            ASSERT_EQ(rank.log.topics().size(), 1u);
            const std::string topic = rank.log.topics()[0];
            EXPECT_TRUE(topic == "timeout" || topic == "peer-gave-up") << topic;
            if (topic == "timeout" && (hosts[rank.number] == hosts[missing] || hosts.size() == 2)) {
                EXPECT_NE(rank.log.text_of(topic).find("Missing ranks:  " + std::to_string(missing) + "\n"),
                          std::string::npos)
                    << rank.log.text_of(topic);
            }
        }
        rank.barrier();
    });
}
} // namespace

TEST(cluster_failure, names_a_rank_that_never_comes_as_the_communicator_counts)
{
    for (bool in_barrier : {false, true}) {
        expect_missing({1, 0, 0, 1}, 3, in_barrier);
        expect_missing(hosts_of({1, 1}), 1, in_barrier);
    }
}

/* Two hosts. The one that waited leaves its barrier with an error; the other's part of it comes later, and is not taken for its part
 * of the next, which has a time of its own to wait. */
TEST(cluster_failure, a_barrier_after_one_that_was_given_up_waits_again)
{
    on_hosts(hosts_of({1, 1}), {{"timeout", "1"}}, [](Rank &rank) {
        if (rank.number == 0) {
            EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_ERR_TIMEOUT);
        }
        rank.barrier();
        gpucoll_barrier_start(rank.team);
        if (rank.number == 1) { /* tells its part of the barrier that the other has given up */
            EXPECT_GE(gpucoll_barrier_test(rank.team), 0);
        }
        rank.barrier();
        /* More than the watchdog lets pass between two looks at the clock. */
        for (int looks = 0; looks < 8000 && rank.number == 0; looks++) {
            ASSERT_EQ(gpucoll_barrier_test(rank.team), GPUCOLL_IN_PROGRESS);
        }
        rank.barrier();
    });
}

/* Its number comes again, in as many bits as a message's tag has for it. */
TEST(cluster_failure, a_barrier_with_the_number_of_one_that_was_given_up_waits)
{
    on_hosts(hosts_of({1, 1}), {{"timeout", "1"}}, [](Rank &rank) {
        if (rank.number == 0) {
            EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_ERR_TIMEOUT);
        }
        rank.barrier();
        if (rank.number == 1) {
            EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_OK); /* rank 0 has told that it was there */
        }
        rank.config.timeout = 60;
        for (int i = 1; i < 0x2000; i++) {
            ASSERT_EQ(enter_barrier(rank.team), GPUCOLL_OK);
        }
        rank.barrier();
        if (rank.number == 0) {
            gpucoll_barrier_start(rank.team);
            const auto begin = Clock::now();
            while (Clock::now() - begin < std::chrono::milliseconds(50)) {
                ASSERT_EQ(gpucoll_barrier_test(rank.team), GPUCOLL_IN_PROGRESS);
            }
        }
        rank.barrier();
        gpucoll_status status = GPUCOLL_IN_PROGRESS;
        if (rank.number == 1) {
            gpucoll_barrier_start(rank.team);
        }
        while (status == GPUCOLL_IN_PROGRESS) {
            status = gpucoll_barrier_test(rank.team);
        }
        EXPECT_EQ(status, GPUCOLL_OK);
    });
}

/* In the middle of a call, which without agreement of hosts begins before all have come. */
TEST(cluster_failure, names_the_rank_whose_operand_is_missing)
{
    on_hosts(hosts_of({1, 1, 1}), {{"timeout", "1"}, {"agree_hosts", "false"}}, [](Rank &rank) {
        if (rank.number == 2) {
            ExchangeCall call;
            call.kind = {GPUCOLL_SCAN, UPWARDS, false, false, false};
            call.type = GPUCOLL_INT32;
            call.count = 200000; /* along the chain: from rank 1 */
            ExchangePart part(call, rank.number, rank.meeting.size);
            EXPECT_EQ(rank.call(part.args()), GPUCOLL_ERR_TIMEOUT);
            EXPECT_NE(rank.log.text_of("timeout").find("Missing ranks:  1\n"), std::string::npos)
                << rank.log.text_of("timeout");
        }
        rank.barrier();
    });
}

TEST(cluster_failure, a_call_that_is_given_up_ends_on_all_at_once)
{
    for (const Hosts &hosts : {hosts_of({2, 1}), hosts_of({1, 3, 1, 2})}) {
        on_hosts(hosts, patient, [](Rank &rank) {
            Sum sum(rank, 100, 1);
            gpucoll_request *request = nullptr;
            ASSERT_EQ(gpucoll_post(rank.team, &sum.args, &request), GPUCOLL_OK);
            const auto begin = Clock::now();
            if (rank.number == 2) {
                gpucoll_cancel(request);
            } else {
                EXPECT_EQ(Rank::finish(request), GPUCOLL_ERR_TIMEOUT);
                EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"peer-gave-up"});
                expect_named(rank, "none");
            }
            EXPECT_LT(Clock::now() - begin, soon);
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
            EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_GIVEN_UP);
            rank.barrier();
        });
    }
}

/* The rank does not come. Those of its host wait for it, and tell the others, who wait longer: by an eighth (expect_missing), within which
 * the ranks of a busy machine may not even begin; here they wait for as long as that takes. */
TEST(cluster_failure, other_hosts_are_told_who_was_missing)
{
    const Hosts hosts = hosts_of({2, 2, 1});
    on_hosts(hosts, patient, [&](Rank &rank) {
        Sum sum(rank, 100, 1);
        EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
        rank.config.timeout = hosts[rank.number] == hosts[3] ? 2 : 60;
        rank.barrier();
        if (rank.number != 3) {
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_ERR_TIMEOUT);
            const std::string topic = hosts[rank.number] == hosts[3] ? "timeout" : "peer-gave-up";
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>{topic});
            expect_named(rank, "3");
        }
        rank.barrier();
        /* So does the one that comes too late. */
        if (rank.number == 3) {
            const auto begin = Clock::now();
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_ERR_TIMEOUT);
            EXPECT_LT(Clock::now() - begin, soon);
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"peer-gave-up"});
        }
        EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
        rank.barrier();
    });
}

/* A call that all can still complete is not ended by one that comes after it. */
TEST(cluster_failure, an_earlier_call_goes_on)
{
    on_hosts(hosts_of({1, 1}), patient, [](Rank &rank) {
        Sum first(rank, 100, 1);
        Sum second(rank, 100, 2);
        gpucoll_request *request = nullptr;
        if (rank.number == 0) {
            EXPECT_EQ(rank.call(first.args), GPUCOLL_OK);
            ASSERT_EQ(gpucoll_post(rank.team, &second.args, &request), GPUCOLL_OK);
            gpucoll_cancel(request);
            rank.barrier();
        } else {
            ASSERT_EQ(gpucoll_post(rank.team, &first.args, &request), GPUCOLL_OK);
            gpucoll_status status = GPUCOLL_IN_PROGRESS;
            for (int looks = 0; looks < 1000 && status == GPUCOLL_IN_PROGRESS; looks++) {
                status = gpucoll_test(request);
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            EXPECT_EQ(status, GPUCOLL_OK);
            EXPECT_TRUE(first.right());
            rank.barrier();
            EXPECT_EQ(rank.call(second.args), GPUCOLL_ERR_TIMEOUT);
        }
        EXPECT_EQ(rank.call(first.args), GPUCOLL_DECLINED);
        EXPECT_FALSE(rank.log.waited_in_vain());
        rank.barrier();
    });
}

namespace
{
thread_local gpucoll_net *my_net; /* of the rank that is this thread */

const gpucoll_net_ops &mortal_net()
{
    static gpucoll_net_ops mortal = fake_net;
    mortal.open = [](const struct gpucoll_config *config, const struct gpucoll_log *log,
                     const struct gpucoll_net_place *place, gpucoll_net **net) {
        gpucoll_status status = fake_net.open(config, log, place, net);
        my_net = *net;
        return status;
    };
    return mortal;
}
} // namespace

/* Its connections fail; those who had none are told by those who had. Before the call, and in the middle of it. */
TEST(cluster_failure, a_lost_connection_ends_the_call_on_all)
{
    for (bool in_call : {false, true}) {
        for (const Hosts &hosts : {hosts_of({2, 2}), hosts_of({1, 2, 1, 2})}) {
            on_hosts(
                hosts, patient,
                [&](Rank &rank) {
                    Sum sum(rank, 300000, 1);
                    EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
                    gpucoll_request *request = nullptr;
                    const auto begin = Clock::now();
                    if (rank.number == 3) {
                        ASSERT_EQ(gpucoll_post(rank.team, &sum.args, &request), GPUCOLL_OK);
                        for (int looks = 0; looks < (in_call ? 200 : 0) && request != nullptr; looks++) {
                            request = gpucoll_test(request) == GPUCOLL_IN_PROGRESS ? request : nullptr;
                        }
                        fake_net_kill(my_net);
                    } else {
                        gpucoll_status status = GPUCOLL_OK;
                        while (status == GPUCOLL_OK) { /* it may have done its part of the first */
                            status = rank.call(sum.args);
                        }
                        EXPECT_EQ(status, GPUCOLL_ERR_PEER);
                        EXPECT_LT(Clock::now() - begin, soon);
                        const std::string topic = rank.log.topics().back();
                        EXPECT_TRUE(topic == "peer-lost" || topic == "peer-gave-up") << topic;
                        expect_named(rank, "3");
                        EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
                    }
                    rank.barrier();
                    if (request != nullptr) {
                        gpucoll_cancel(request);
                    }
                },
                false, &mortal_net());
        }
    }
}

/* It may have been closed for the sake of another team. */
TEST(cluster_failure, a_lost_connection_to_a_rank_that_answers_ends_nothing)
{
    static gpucoll_net_ops torn = fake_net;
    torn.lost = [](gpucoll_net *, const gpucoll_net_peer *) { return true; };
    on_hosts(
        hosts_of({1, 1}), patient,
        [](Rank &rank) {
            if (rank.number == 1) {
                std::this_thread::sleep_for(std::chrono::milliseconds(2500));
            }
            Sum sum(rank, 100, 1);
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
            EXPECT_TRUE(sum.right());
        },
        false, &torn);
}

/* Whatever message it is that fails: everybody's call ends with an error, and nothing is left over. */
TEST(cluster_failure, a_message_that_fails_ends_the_call_on_all)
{
    for (uint32_t before : {3, 8, 13, 22}) { /* the first is the greeting's */
        on_hosts(
            hosts_of({2, 2}), {{"timeout", "60"}, {"chunk", "4K"}},
            [](Rank &rank) {
                gpucoll_status status = GPUCOLL_OK;
                for (int turn = 0; turn < 20 && status == GPUCOLL_OK; turn++) {
                    Sum sum(rank, 10000, turn);
                    status = rank.call(sum.args);
                    EXPECT_TRUE(status != GPUCOLL_OK || sum.right());
                }
                EXPECT_LT(status, 0) << gpucoll_status_name(status);
                EXPECT_FALSE(rank.log.waited_in_vain());
                rank.barrier();
            },
            false, fake_net_failing(before));
    }
}

/* ---- death ---- */

namespace
{
/* A process that is there has this file mapped. */
bool is_in_use(const std::string &path)
{
    std::error_code error;
    for (const auto &process : std::filesystem::directory_iterator("/proc", error)) {
        std::ifstream maps(process.path() / "maps");
        for (std::string line; std::getline(maps, line);) {
            if (line.find(path) != std::string::npos) {
                return true;
            }
        }
    }
    return false;
}

/* What UCX leaves behind where it uses shared memory: files of processes that are gone. */
std::set<std::string> files_of_ucx()
{
    std::set<std::string> files;
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/dev/shm", error)) {
        const std::string path = entry.path();
        struct stat file;
        if (path.find("ucx_shm") != std::string::npos && stat(path.c_str(), &file) == 0 &&
            file.st_uid == getuid() && !is_in_use(path)) {
            files.insert(path);
        }
    }
    return files;
}

/* Other programs may have made a file and not yet mapped it, or be about to remove it: what is left is so in two looks. */
std::set<std::string> files_left(const std::set<std::string> &before)
{
    std::set<std::string> left;
    const std::set<std::string> first = files_of_ucx();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (const std::string &path : files_of_ucx()) {
        if (first.count(path) > 0 && before.count(path) == 0) {
            left.insert(path);
        }
    }
    return left;
}
} // namespace

/* Over UCX. Rank 3 shares a host with rank 2, a rail with rank 1, and nothing with rank 0. */
TEST(cluster_failure, a_process_that_is_killed_is_told_to_all)
{
    if (gpucoll_net_ucx.send == nullptr) {
        GTEST_SKIP() << "built without UCX";
    }
    const std::set<std::string> before = files_of_ucx();
    on_processes(
        4, {{"timeout", "60"}, {"hosts", "2"}, {"net_devices", "lo"}},
        [&](Rank &rank) {
            static Sum *sum = new Sum(rank, 1000000, 1);
            EXPECT_EQ(rank.call(sum->args), GPUCOLL_OK);
            if (rank.number == 3) {
                gpucoll_request *request = nullptr;
                EXPECT_EQ(gpucoll_post(rank.team, &sum->args, &request), GPUCOLL_OK);
                for (int looks = 0; looks < 50 && gpucoll_test(request) == GPUCOLL_IN_PROGRESS; looks++) {
                    std::this_thread::sleep_for(std::chrono::microseconds(100));
                }
                die();
            }
            const auto begin = Clock::now();
            gpucoll_status status = GPUCOLL_OK;
            while (status == GPUCOLL_OK) {
                status = rank.call(sum->args);
            }
            EXPECT_EQ(status, GPUCOLL_ERR_PEER);
            EXPECT_LT(Clock::now() - begin, soon);
            expect_named(rank, "3");
            EXPECT_EQ(rank.call(sum->args), GPUCOLL_DECLINED);
        },
        3);
    EXPECT_EQ(files_left(before), std::set<std::string>());
}

/* A call behind another waits for no rank: what comes slowly is no reason to give it up, however long it takes in all. */
TEST(cluster_failure, a_call_behind_a_slow_one_has_patience)
{
    on_hosts(hosts_of({1, 1}), {{"timeout", "1"}, {"chunk", "4K"}}, [](Rank &rank) {
        Sum first(rank, 2000000, 1); /* with whose chunks that rank is not done by then, twice over */
        Sum second(rank, 50000, 2);
        gpucoll_request *request[2];
        ASSERT_EQ(gpucoll_post(rank.team, &first.args, &request[0]), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_post(rank.team, &second.args, &request[1]), GPUCOLL_OK);
        const std::chrono::milliseconds slow(2500);
        const auto begin = Clock::now();
        gpucoll_status status[2] = {GPUCOLL_IN_PROGRESS, GPUCOLL_IN_PROGRESS};
        while (status[0] == GPUCOLL_IN_PROGRESS || status[1] == GPUCOLL_IN_PROGRESS) {
            for (int i = 0; i < 2; i++) {
                status[i] = status[i] == GPUCOLL_IN_PROGRESS ? gpucoll_test(request[i]) : status[i];
            }
            if (rank.number == 1 && Clock::now() - begin < slow) {
                std::this_thread::sleep_for(std::chrono::milliseconds(150));
            }
        }
        EXPECT_EQ(status[0], GPUCOLL_OK);
        EXPECT_EQ(status[1], GPUCOLL_OK);
        EXPECT_TRUE(first.right());
        EXPECT_TRUE(second.right());
        EXPECT_TRUE(rank.log.topics().empty());
        EXPECT_TRUE(Clock::now() - begin >= slow) << "it was not slow";
    });
}
