/*
 * Teams: who can be one, what every rank is told when not, many of them at once and one after the other; the lanes of a GPU.
 */
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/resource.h>
#include <thread>
#include "test/unit/ranks.h"
#include "test/unit/values.h"

extern "C" {
#include "core/base/segment.h"
#include "core/gpu.h"
}

namespace
{
/* A sum of one double on the team; what it gave. */
gpucoll_status sum_one(gpucoll_team *team, double value, double *result)
{
    Buffer send(sizeof value);
    Buffer recv(sizeof value);
    memcpy(send.data(), &value, sizeof value);
    gpucoll_coll_args args = reduce_all(GPUCOLL_SUM, GPUCOLL_FLOAT64, send.data(), recv.data(), 1);
    gpucoll_status status = Rank::call(team, args);
    memcpy(result, recv.data(), sizeof *result);
    return status;
}

void expect_works(gpucoll_team *team, uint32_t rank, uint32_t size)
{
    double result = 0;
    EXPECT_EQ(sum_one(team, rank + 0.5, &result), GPUCOLL_OK);
    EXPECT_EQ(result, size * (size - 1) / 2.0 + 0.5 * size);
}

/* Makes a team of ranks of which some are not as they should be; what each got, and its log. */
void expect_declined(uint32_t size, const Body &prepare, const std::string &topic,
                     const std::string &line = "",
                     const std::function<void(uint32_t, char *, size_t)> &tamper = nullptr)
{
    Meeting meeting(size);
    meeting.tamper = tamper;
    std::vector<std::thread> threads;
    for (uint32_t number = 0; number < size; number++) {
        threads.emplace_back([&, number] {
            Rank rank(number, meeting, {});
            prepare(rank);
            EXPECT_EQ(rank.open(), GPUCOLL_DECLINED) << "rank " << number;
            EXPECT_EQ(rank.team, nullptr);
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>(topic.empty() ? 0 : 1, topic))
                << "rank " << number;
            std::string lines;
            for (const std::string &each : rank.log.lines()) {
                lines += each + "\n";
            }
            EXPECT_NE(lines.find("team 0: not native: " + line), std::string::npos) << lines;
            rank.close();
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

constexpr size_t settings_offset =
    32; /* a card begins with the version, then the settings, then the board's owner */
} // namespace

/* ---- who can be a team ---- */

TEST(team, of_one_needs_nobody)
{
    on_threads(1, {}, [](Rank &rank) {
        for (int i = 0; i < 10; i++) {
            expect_works(rank.team, 0, 1);
        }
    });
}

TEST(team, ranks_with_other_settings_are_told_and_decline)
{
    const std::pair<const char *, const char *> settings[] = {{"max_ctas", "7"},
                                                              {"lanes", "3"},
                                                              {"threads", "64"},
                                                              {"scratch_bytes", "2M"},
                                                              {"allreduce_algorithm", "twoshot"},
                                                              {"bcast_algorithm", "phased"},
                                                              {"protocol", "ll128"},
                                                              {"linger", "0"},
                                                              {"channels", "3"},
                                                              {"chunk", "64K"},
                                                              {"transports", "p2p"},
                                                              {"shm_bytes", "1M"},
                                                              {"hosts", "2"},
                                                              {"agree_hosts", "false"}};
    for (const auto &setting : settings) {
        expect_declined(
            3,
            [&](Rank &rank) {
                if (rank.number == 1) {
                    rank.set(setting.first, setting.second);
                }
            },
            "settings-mismatch", "ranks have different settings");
    }
}

TEST(team, settings_of_one_process_alone_may_differ)
{
    on_threads(
        2, {},
        [](Rank &rank) {
            rank.set("pack_bytes", rank.number == 0 ? "1M" : "2M");
            rank.set("timeout", rank.number == 0 ? "50" : "90");
            rank.set("verbose", rank.number == 0 ? "1" : "0");
            ASSERT_EQ(rank.open(), GPUCOLL_OK);
            expect_works(rank.team, rank.number, 2);
            rank.close();
        },
        true);
}

TEST(team, another_version_is_told_with_both_and_declines)
{
    expect_declined(
        2, [](Rank &) {}, "version-mismatch", "ranks run different versions",
        [](uint32_t reader, char *all, size_t bytes) {
            char *peer = all + (1 - reader) * bytes;
            if (bytes > 100) { /* the exchange of cards */
                strcpy(peer, "9.9.9");
            }
        });
}

TEST(team, version_message_names_both)
{
    Meeting meeting(1);
    RecordingLog log;
    gpucoll_help(log.get(), "version-mismatch", "MPI_COMM_WORLD", 3u, "9.9.9", "0.1.0");
    std::string text = log.text_of("version-mismatch");
    for (const char *word : {"MPI_COMM_WORLD", "3", "9.9.9", "0.1.0"}) {
        EXPECT_NE(text.find(word), std::string::npos) << text;
    }
}

TEST(team, settings_are_compared_on_every_rank)
{
    expect_declined(
        2, [](Rank &) {}, "settings-mismatch", "ranks have different settings",
        [](uint32_t, char *all, size_t bytes) {
            if (bytes > 100) {
                all[bytes + settings_offset] ^= 1;
            }
        });
}

TEST(team, a_rank_without_accelerator_makes_all_decline)
{
    expect_declined(
        3,
        [](Rank &rank) {
            if (rank.number == 2) {
                rank.set("accelerator", "none");
            }
        },
        "", "a rank has no accelerator");
}

TEST(team, more_ranks_than_a_kernel_takes_decline_without_a_network)
{
    expect_declined(
        GPUCOLL_MAX_LOCAL + 1, [](Rank &rank) { rank.set("transports", "p2p"); }, "",
        "its ranks are on 2 hosts, and coll_gpucoll_transports (p2p) leaves out rdma");
}

TEST(team, most_ranks_of_a_kernel_work)
{
    on_threads(GPUCOLL_MAX_LOCAL, {{"lanes", "1"}}, [](Rank &rank) {
        for (int i = 0; i < 3; i++) {
            expect_works(rank.team, rank.number, GPUCOLL_MAX_LOCAL);
        }
    });
}

TEST(team, a_failed_exchange_is_an_error)
{
    on_threads(
        2, {},
        [](Rank &rank) {
            ASSERT_EQ(gpucoll_context_create(&rank.config, rank.log.get(), &rank.context), GPUCOLL_OK);
            gpucoll_exchange exchange = {
                rank.number, 2, [](void *, const void *, void *, size_t) { return 1; }, nullptr, nullptr};
            gpucoll_team *team = nullptr;
            EXPECT_EQ(gpucoll_team_create(rank.context, &exchange, "x", &team), GPUCOLL_ERR_EXCHANGE);
            EXPECT_EQ(team, nullptr);
            rank.close();
        },
        true);
}

/* A board that one rank cannot map: that rank says why, and all know. */
TEST(team, a_board_that_cannot_be_mapped_makes_all_decline)
{
    expect_declined(
        2, [](Rank &) {}, "", "",
        [](uint32_t reader, char *all, size_t bytes) {
            if (bytes == sizeof(int32_t) && reader < 2) { /* the second exchange: as if rank 1 had said so */
                int32_t failed = GPUCOLL_ERR_SYSTEM;
                memcpy(all + bytes, &failed, sizeof failed);
            }
        });
}

/* ---- GPUs that cannot be used ---- */

/* The scratch of a rank does not fit; by a limit of the process, so that no machine really gives that much away. */
static void limit_files(size_t bytes)
{
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {bytes, bytes};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(gpu, that_cannot_be_bound_is_said_once_and_all_decline)
{
    for (bool all_ranks : {true, false}) {
        on_processes(2, {}, [=](Rank &rank) {
            bool mine = all_ranks || rank.number == 1;
            if (mine) {
                limit_files(4 << 20);
            }
            double result;
            for (int i = 0; i < 3; i++) {
                EXPECT_EQ(sum_one(rank.team, 1, &result), GPUCOLL_DECLINED);
            }
            if (mine) {
                EXPECT_EQ(rank.log.topics(), (std::vector<std::string>{"segment-create", "gpu-bind"}));
                EXPECT_NE(rank.log.text_of("gpu-bind").find("MiB"), std::string::npos);
            } else {
                EXPECT_TRUE(rank.log.topics().empty());
            }
        });
    }
}

TEST(gpu, that_no_transport_reaches_is_said_once_and_all_decline)
{
    on_threads(3, {{"transports", "none"}}, [](Rank &rank) {
        double result;
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(sum_one(rank.team, 1, &result), GPUCOLL_DECLINED);
        }
        /* One message for each peer. */
        EXPECT_EQ(rank.log.topics(), std::vector<std::string>(2, "peer-unreachable"));
    });
}

class lanes : public testing::Test
{
  protected:
    void SetUp() override
    {
        gpucoll_config_init(&config);
        ASSERT_EQ(gpucoll_config_set(&config, "accelerator", "host"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_config_set(&config, "scratch_bytes", "1M"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_config_set(&config, "lanes", "3"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_accel_open(&config, log.get(), &accel), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_gpu_open(accel, this, &gpu), GPUCOLL_OK);
    }

    void TearDown() override
    {
        gpucoll_gpu_close(gpu);
        gpucoll_accel_close(accel);
    }

    RecordingLog log;
    gpucoll_config config;
    gpucoll_accel *accel = nullptr;
    gpucoll_gpu *gpu = nullptr;
};

TEST_F(lanes, are_taken_once_and_given_back)
{
    gpucoll_lane *taken[3];
    for (gpucoll_lane *&lane : taken) {
        lane = gpucoll_gpu_take_lane(gpu);
        ASSERT_NE(lane, nullptr);
        EXPECT_EQ(lane->epoch, 1u);
    }
    EXPECT_EQ(gpucoll_gpu_take_lane(gpu), nullptr);
    EXPECT_GE(taken[1]->offset, gpucoll_lane_bytes(1 << 20));
    gpucoll_gpu_give_lane(taken[1]);
    gpucoll_lane *again = gpucoll_gpu_take_lane(gpu);
    EXPECT_EQ(again, taken[1]);
    EXPECT_EQ(again->epoch, 2u);
    again->poisoned = true; /* a call was abandoned on it */
    gpucoll_gpu_give_lane(again);
    EXPECT_EQ(gpucoll_gpu_take_lane(gpu), nullptr);
}

TEST_F(lanes, begin_their_epochs_anew_on_cleared_memory)
{
    gpucoll_lane *lane = gpucoll_gpu_take_lane(gpu);
    size_t bytes = gpucoll_lane_bytes(1 << 20);
    char *memory = static_cast<char *>(gpu->scratch) + lane->offset;
    memset(memory, 0xff, bytes);
    memory[bytes] = 1; /* the next lane's */
    lane->epoch = UINT32_MAX - GPUCOLL_EPOCHS_OF_A_CALL;
    gpucoll_gpu_give_lane(lane);
    EXPECT_EQ(gpucoll_gpu_take_lane(gpu)->epoch, UINT32_MAX - GPUCOLL_EPOCHS_OF_A_CALL + 1);
    EXPECT_EQ(memory[100], '\xff');
    gpucoll_gpu_give_lane(lane);
    EXPECT_EQ(gpucoll_gpu_take_lane(gpu)->epoch, 1u);
    for (size_t i = 0; i < bytes; i++) {
        ASSERT_EQ(memory[i], 0) << i;
    }
    EXPECT_EQ(memory[bytes], 1);
}

/* ---- many teams ---- */

TEST(teams, made_used_and_freed_thousands_of_times)
{
    on_threads(2, {}, [](Rank &rank) {
        for (uint32_t i = 1; i <= 4500; i++) { /* more than a board has regions */
            gpucoll_team *team = nullptr;
            if (rank.make_team(rank.meeting, i, &team) != GPUCOLL_OK) {
                ADD_FAILURE() << "team " << i;
                break;
            }
            if (i % 64 == 0) {
                expect_works(team, rank.number, 2);
            }
            gpucoll_team_destroy(team);
        }
        expect_works(rank.team, rank.number, 2);
    });
}

TEST(teams, as_many_at_once_as_a_board_holds)
{
    on_threads(2, {}, [](Rank &rank) {
        std::vector<gpucoll_team *> teams;
        gpucoll_team *team = nullptr;
        constexpr uint32_t room = 4096 - 8;   /* so many rest */
        for (uint32_t i = 1; i < room; i++) { /* one is the world */
            ASSERT_EQ(rank.make_team(rank.meeting, i, &team), GPUCOLL_OK) << i;
            teams.push_back(team);
        }
        EXPECT_EQ(rank.make_team(rank.meeting, room, &team), GPUCOLL_DECLINED);
        expect_works(teams.front(), rank.number, 2);
        expect_works(teams.back(), rank.number, 2);
        gpucoll_team_destroy(teams.back());
        teams.pop_back();
        EXPECT_EQ(rank.make_team(rank.meeting, room + 1, &team), GPUCOLL_OK);
        expect_works(team, rank.number, 2);
        teams.push_back(team);
        rank.barrier();
        for (gpucoll_team *each : teams) {
            gpucoll_team_destroy(each);
        }
    });
}

/* Threads of one process make teams at the same time, and in another order in each process: nobody may hold what another
 * needs while it waits for a peer. */
TEST(teams, made_at_once_by_several_threads)
{
    constexpr uint32_t ranks = 3;
    constexpr uint32_t threads_each = 4;
    for (int turn = 0; turn < 10; turn++) {
        std::vector<std::unique_ptr<Meeting>> meetings;
        for (uint32_t i = 0; i < threads_each; i++) {
            meetings.push_back(std::make_unique<Meeting>(ranks));
        }
        on_threads(ranks, {{"lanes", "4"}}, [&](Rank &rank) {
            std::vector<std::thread> threads;
            for (uint32_t i = 0; i < threads_each; i++) {
                uint32_t which = rank.number % 2 ? threads_each - 1 - i : i;
                threads.emplace_back([&, which] {
                    gpucoll_team *team = nullptr;
                    ASSERT_EQ(rank.make_team(*meetings[which], which + 1, &team), GPUCOLL_OK);
                    expect_works(team, rank.number, ranks);
                    meetings[which]->barrier();
                    gpucoll_team_destroy(team);
                });
                std::this_thread::yield();
            }
            for (std::thread &thread : threads) {
                thread.join();
            }
        });
    }
}

/* Calls on several teams at once share lanes and connections; with fewer lanes than teams some are declined, by all alike. */
TEST(teams, used_at_once_by_several_threads)
{
    constexpr uint32_t ranks = 3;
    constexpr uint32_t threads_each = 3;
    for (const char *lanes : {"3", "2"}) {
        std::vector<std::unique_ptr<Meeting>> meetings;
        for (uint32_t i = 0; i < threads_each; i++) {
            meetings.push_back(std::make_unique<Meeting>(ranks));
        }
        on_threads(ranks, {{"lanes", lanes}}, [&](Rank &rank) {
            std::vector<std::thread> threads;
            std::atomic<int> ran{0};
            for (uint32_t which = 0; which < threads_each; which++) {
                threads.emplace_back([&, which] {
                    gpucoll_team *team = nullptr;
                    ASSERT_EQ(rank.make_team(*meetings[which], which + 1, &team), GPUCOLL_OK);
                    std::vector<int> statuses;
                    for (int i = 0; i < 100; i++) {
                        double result = 0;
                        gpucoll_status status = sum_one(team, rank.number + i, &result);
                        statuses.push_back(status);
                        EXPECT_TRUE(status == GPUCOLL_OK || status == GPUCOLL_DECLINED);
                        if (status == GPUCOLL_OK) {
                            EXPECT_EQ(result, 3 * i + 3);
                            ran++;
                        }
                    }
                    std::vector<int> all(ranks * statuses.size());
                    meetings[which]->allgather(rank.number, statuses.data(), all.data(),
                                               statuses.size() * sizeof(int));
                    for (size_t at = 0; at < all.size(); at++) {
                        EXPECT_EQ(all[at], statuses[at % statuses.size()]) << "ranks disagree";
                    }
                    gpucoll_team_destroy(team);
                });
            }
            for (std::thread &thread : threads) {
                thread.join();
            }
            EXPECT_GT(ran.load(), 0);
        });
    }
}

/* Teams of some of the ranks, in another order than the world's. */
TEST(teams, of_part_of_the_ranks)
{
    Meeting odd(2);
    Meeting even(2);
    on_processes(4, {}, [&](Rank &rank) {
        Meeting &mine = rank.number % 2 ? odd : even;
        uint32_t place = 1 - rank.number / 2;
        gpucoll_exchange exchange = mine.exchange(place);
        gpucoll_team *team = nullptr;
        ASSERT_EQ(gpucoll_team_create(rank.context, &exchange, "half", &team), GPUCOLL_OK);
        for (int i = 0; i < 20; i++) {
            expect_works(team, place, 2);
            expect_works(rank.team, rank.number, 4);
        }
        rank.barrier();
        gpucoll_team_destroy(team);
    });
}

/* How often this process has memory of gpucoll's mapped, its own and that of its peers. */
static size_t mappings()
{
    size_t count = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        count += line.find("memfd:gpucoll") != std::string::npos;
    }
    return count;
}

TEST(context, unmaps_a_process_that_has_ended_and_is_in_no_team)
{
    Meeting pair(2);
    on_processes(
        3, {},
        [&](Rank &rank) {
            const gpucoll_exchange all = rank.meeting.exchange(rank.number);
            gpucoll_process_id self;
            gpucoll_process_id processes[3];
            gpucoll_process_id_self(&self);
            ASSERT_EQ(all.allgather(all.arg, &self, processes, sizeof self), 0);
            expect_works(rank.team, rank.number, 3);
            gpucoll_team *two = nullptr;
            if (rank.number < 2) {
                ASSERT_EQ(rank.make_team(pair, 1, &two), GPUCOLL_OK);
                expect_works(two, rank.number, 2);
            }
            rank.barrier();
            if (rank.number == 2) {
                die();
            }
            while (!gpucoll_process_gone(&processes[2])) {
                std::this_thread::yield();
            }
            const size_t before = mappings();
            gpucoll_team_destroy(rank.team);
            rank.team = nullptr;
            const size_t after = mappings();
            EXPECT_LT(after, before);
            /* Who lives stays connected, for teams to come. */
            expect_works(two, rank.number, 2);
            pair.barrier();
            gpucoll_team_destroy(two);
            EXPECT_EQ(mappings(), after);
            pair.barrier();
        },
        2);
}

TEST(context, leaves_nothing_behind)
{
    auto descriptors = [] {
        size_t count = 0;
        for (int fd = 0; fd < 1024; fd++) {
            count += fcntl(fd, F_GETFD) != -1;
        }
        return count;
    };
    size_t before = descriptors();
    for (int i = 0; i < 5; i++) {
        on_threads(3, {}, [](Rank &rank) { expect_works(rank.team, rank.number, 3); });
    }
    EXPECT_EQ(descriptors(), before);
    EXPECT_EQ(shm_traces(), std::vector<std::string>());
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        EXPECT_EQ(line.find("memfd:gpucoll"), std::string::npos) << line;
    }
    gpucoll_context_destroy(nullptr);
    gpucoll_team_destroy(nullptr);
}
