#include "test/unit/ranks.h"
#include <chrono>
#include <csignal>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace
{
constexpr uint32_t most_ranks = 72;
constexpr size_t most_bytes = 4096;
constexpr std::chrono::seconds patience{120};
} // namespace

struct Meeting::Shared {
    std::atomic<uint32_t> arrived;
    std::atomic<uint32_t> generation;
    char slots[most_ranks][most_bytes];
};

Meeting::Meeting(uint32_t size) : size(size)
{
    void *map = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || size > most_ranks) {
        abort();
    }
    shared = new (map) Shared;
    for (uint32_t rank = 0; rank < size; rank++) {
        seats.push_back({this, rank});
    }
}

Meeting::~Meeting()
{
    munmap(shared, sizeof(Shared));
}

bool Meeting::barrier()
{
    uint32_t generation = shared->generation.load();
    if (shared->arrived.fetch_add(1) + 1 == size) {
        shared->arrived.store(0);
        shared->generation.store(generation + 1);
        return true;
    }
    auto end = std::chrono::steady_clock::now() + patience;
    while (shared->generation.load() == generation) {
        if (std::chrono::steady_clock::now() > end) {
            ADD_FAILURE() << "a rank did not come to the barrier";
            return false;
        }
        sched_yield();
    }
    return true;
}

bool Meeting::allgather(uint32_t rank, const void *mine, void *all, size_t bytes)
{
    if (bytes > most_bytes) {
        return false;
    }
    memcpy(shared->slots[rank], mine, bytes);
    if (!barrier()) {
        return false;
    }
    for (uint32_t i = 0; i < size; i++) {
        memcpy(static_cast<char *>(all) + i * bytes, shared->slots[i], bytes);
    }
    return barrier();
}

int Meeting::allgather_callback(void *arg, const void *mine, void *all, size_t bytes)
{
    auto *seat = static_cast<Seat *>(arg);
    if (!seat->meeting->allgather(seat->rank, mine, all, bytes)) {
        return -1;
    }
    if (seat->meeting->tamper) {
        seat->meeting->tamper(seat->rank, static_cast<char *>(all), bytes);
    }
    return 0;
}

gpucoll_exchange Meeting::exchange(uint32_t rank)
{
    return {rank, size, allgather_callback, &seats[rank], nullptr};
}

Rank::Rank(uint32_t rank, Meeting &meeting, const Settings &settings) : number(rank), meeting(meeting)
{
    memset(&config, 0, sizeof config);
    gpucoll_config_init(&config);
    set("accelerator", "host");
    set("scratch_bytes", "1M"); /* several rounds at sizes that are quick to check */
    set("lanes", "2");
    set("timeout", "100");
    for (const auto &setting : settings) {
        set(setting.first, setting.second);
    }
}

void Rank::set(const char *name, const char *value)
{
    EXPECT_EQ(gpucoll_config_set(&config, name, value), GPUCOLL_OK) << name << "=" << value;
}

gpucoll_status Rank::open()
{
    gpucoll_status status = gpucoll_context_create(&config, log.get(), &context);
    return status == GPUCOLL_OK ? make_team(meeting, 0, &team) : status;
}

void Rank::close()
{
    barrier();
    gpucoll_team_destroy(team);
    team = nullptr;
    barrier();
    gpucoll_context_destroy(context);
    context = nullptr;
}

gpucoll_status Rank::make_team(Meeting &members, uint32_t index, gpucoll_team **made)
{
    gpucoll_exchange exchange = members.exchange(number);
    return gpucoll_team_create(context, &exchange, ("team " + std::to_string(index)).c_str(), made);
}

gpucoll_status Rank::finish(gpucoll_request *request, std::chrono::milliseconds pause)
{
    gpucoll_status status;
    while ((status = gpucoll_test(request)) == GPUCOLL_IN_PROGRESS) {
        if (pause.count() > 0) {
            std::this_thread::sleep_for(pause);
        } else {
            sched_yield();
        }
    }
    return status;
}

gpucoll_status Rank::call(gpucoll_team *team, const gpucoll_coll_args &args, std::chrono::milliseconds pause)
{
    gpucoll_request *request = nullptr;
    gpucoll_status status = gpucoll_post(team, &args, &request);
    return status == GPUCOLL_OK ? finish(request, pause) : status;
}

/* FNV-1a, so that any number of bytes fits an exchange. */
static uint64_t hash(const void *data, size_t bytes)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++) {
        value = (value ^ static_cast<const unsigned char *>(data)[i]) * UINT64_C(0x100000001b3);
    }
    return value;
}

bool Rank::agree(const void *data, size_t bytes)
{
    uint64_t mine = hash(data, bytes);
    std::vector<uint64_t> all(meeting.size);
    if (!meeting.allgather(number, &mine, all.data(), sizeof mine)) {
        return false;
    }
    for (uint64_t other : all) {
        if (other != mine) {
            return false;
        }
    }
    return true;
}

static void play(uint32_t number, Meeting &meeting, const Settings &settings, const Body &body, bool bare)
{
    Rank rank(number, meeting, settings);
    if (bare) {
        body(rank);
        return;
    }
    gpucoll_status status = rank.open();
    EXPECT_EQ(status, GPUCOLL_OK) << gpucoll_status_name(status);
    if (status == GPUCOLL_OK) {
        body(rank);
    }
    rank.close();
}

void on_threads(uint32_t size, const Settings &settings, const Body &body, bool bare)
{
    Meeting meeting(size);
    std::vector<std::thread> threads;
    for (uint32_t number = 0; number < size; number++) {
        threads.emplace_back([&, number] { play(number, meeting, settings, body, bare); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

/* In the child: the exit status says whether the rank's expectations held. */
[[noreturn]] static void play_child(uint32_t number, Meeting &meeting, const Settings &settings,
                                    const Body &body)
{
    bool failed_before = testing::Test::HasFailure();
    Rank rank(number, meeting, settings);
    gpucoll_status status = rank.open();
    EXPECT_EQ(status, GPUCOLL_OK) << gpucoll_status_name(status);
    if (status == GPUCOLL_OK) {
        body(rank);
    }
    gpucoll_team_destroy(rank.team);
    gpucoll_context_destroy(rank.context);
    fflush(stdout);
    _exit(!failed_before && testing::Test::HasFailure());
}

void die()
{
    fflush(stdout);
    if (!testing::Test::HasFailure()) {
        kill(getpid(), SIGKILL);
    }
    _exit(1);
}

void on_processes(uint32_t size, const Settings &settings, const Body &body, int killed)
{
    Meeting meeting(size);
    std::vector<pid_t> children;
    fflush(stdout);
    for (uint32_t number = 0; number < size; number++) {
        pid_t child = fork();
        if (child == 0) {
            play_child(number, meeting, settings, body);
        }
        children.push_back(child);
    }
    for (uint32_t left = size; left > 0; left--) {
        int status = 0;
        pid_t child = wait(&status); /* whichever ends first: a dead rank must not stay a zombie */
        uint32_t rank = 0;
        while (rank < size && children[rank] != child) {
            rank++;
        }
        if (static_cast<int>(rank) == killed) {
            EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "rank " << rank;
        } else {
            EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
                << "rank " << rank << " status " << status;
        }
    }
}
