/*
 * Ranks of a test: threads of this process, or forked processes, which meet in shared memory. Each has a context, a log
 * and a configuration of its own, as an MPI process has.
 */
#ifndef GPUCOLL_TEST_RANKS_H
#define GPUCOLL_TEST_RANKS_H

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include "test/unit/unit.h"

extern "C" {
#include "core/gpucoll.h"
}

/* Where ranks wait for each other and exchange bytes. It survives a fork, and no wait is for ever: a rank that fails does not
 * hang the others. */
class Meeting
{
  public:
    explicit Meeting(uint32_t size);
    ~Meeting();
    Meeting(const Meeting &) = delete;
    Meeting &operator=(const Meeting &) = delete;

    bool barrier(); /* false if somebody does not come */
    bool allgather(uint32_t rank, const void *mine, void *all, size_t bytes);
    /* For gpucoll_team_create; valid as long as this object. */
    gpucoll_exchange exchange(uint32_t rank);

    const uint32_t size;
    /* Changes what rank `reader` receives in an allgather, to play a peer that is not like us. */
    std::function<void(uint32_t reader, char *all, size_t bytes)> tamper;

  private:
    struct Shared;
    struct Seat {
        Meeting *meeting;
        uint32_t rank;
    };
    static int allgather_callback(void *arg, const void *mine, void *all, size_t bytes);

    Shared *shared;
    std::vector<Seat> seats;
};

/* Configuration rows by name. */
using Settings = std::vector<std::pair<const char *, const char *>>;

class Rank
{
  public:
    Rank(uint32_t rank, Meeting &meeting, const Settings &settings);

    gpucoll_status open(); /* context and team */
    void close();          /* together: a peer may read this rank's board to the end */
    void set(const char *name, const char *value);
    bool barrier() { return meeting.barrier(); }

    gpucoll_status make_team(Meeting &members, uint32_t number, gpucoll_team **made);
    /* Tests the request until it is final, with a pause between. */
    static gpucoll_status finish(gpucoll_request *request, std::chrono::milliseconds pause = {});
    static gpucoll_status call(gpucoll_team *team, const gpucoll_coll_args &args,
                               std::chrono::milliseconds pause = {});
    gpucoll_status call(const gpucoll_coll_args &args, std::chrono::milliseconds pause = {})
    {
        return call(team, args, pause);
    }
    /* Do all ranks bring the same bytes? Collective. */
    bool agree(const void *data, size_t bytes);

    const uint32_t number;
    Meeting &meeting;
    gpucoll_config config;
    RecordingLog log;
    gpucoll_context *context = nullptr;
    gpucoll_team *team = nullptr;
};

/* What an all-reduce takes. */
inline gpucoll_coll_args reduce_all(gpucoll_op op, gpucoll_type type, const void *send, void *recv,
                                    size_t count)
{
    gpucoll_coll_args args = {};
    args.op = op;
    args.type = type;
    args.send = send;
    args.recv = recv;
    args.count = count;
    return args;
}

using Body = std::function<void(Rank &)>;

/* Runs `body` on `size` ranks. `bare`: without context and team, else they are made before it and freed after it. */
void on_threads(uint32_t size, const Settings &settings, const Body &body, bool bare = false);
/* The same in forked processes; a rank may be expected to die by SIGKILL, by `die`, which it does not if its expectations did not hold. */
[[noreturn]] void die();
void on_processes(uint32_t size, const Settings &settings, const Body &body, int killed = -1);

#endif
