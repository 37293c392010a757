/*
 * What the unit tests share: the engine's C headers as C++ sees them, and a log that remembers.
 */
#ifndef GPUCOLL_TEST_UNIT_H
#define GPUCOLL_TEST_UNIT_H

#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>
#include <gtest/gtest.h>

extern "C" {
#include "core/accel/accel.h"
#include "core/base/config.h"
#include "core/base/log.h"
#include "core/base/number.h"
#include "core/base/segment.h"
#include "core/base/status.h"
#include "core/base/types.h"
#include "kernels/functors.h"
#include "kernels/kernel_abi.h"
}

/* The longest tests divide their amounts by this where the thread sanitizer looks at every access, which takes many times as long. */
#if defined(__SANITIZE_THREAD__)
constexpr size_t divisor = 4;
#else
constexpr size_t divisor = 1;
#endif
/* By this where it is only the amounts that take long, under the address sanitizer as well. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr size_t amounts_divisor = 4;
#else
constexpr size_t amounts_divisor = 1;
#endif

/* Of this thread. Who looks again and again while it waits, and is kept from its core for long, has not waited so long. */
std::chrono::nanoseconds cpu_time();

/* A file of the source tree. */
std::string source_file(const std::string &path);
/* The help file of the source tree: a topic that is not in it fails the test. */
std::string help_file();

/* Keeps what was said. Any thread may write to it. */
class RecordingLog
{
  public:
    explicit RecordingLog(int verbosity = 100);
    RecordingLog(const RecordingLog &) = delete;
    RecordingLog &operator=(const RecordingLog &) = delete;

    const struct gpucoll_log *get() const { return &log; }
    std::vector<std::string> lines() const;
    std::string text() const; /* of all lines */
    std::vector<std::string> topics() const;
    /* The texts of all messages of this topic, one after the other; empty if there was none. */
    std::string text_of(const std::string &topic) const;
    /* Has anybody waited in vain for as long as the timeout? */
    bool waited_in_vain() const { return !text_of("timeout").empty() || !text_of("net-silent").empty(); }

  private:
    struct Help {
        std::string topic;
        std::string text;
    };
    static void print(void *arg, int level, const char *line);
    static void help(void *arg, const char *topic, va_list args);

    struct gpucoll_log log;
    mutable std::mutex mutex;
    std::vector<std::string> printed;
    std::vector<Help> helps;
};

/* A random number generator whose seed a failure can name: the same numbers everywhere. */
class Random
{
  public:
    explicit Random(uint64_t seed) : state(seed) {}
    uint64_t next();
    uint32_t below(uint32_t limit) { return static_cast<uint32_t>(next() % limit); }

  private:
    uint64_t state;
};

/* The operators and types that have a functor, with it. */
struct NativePair {
    enum gpucoll_op op;
    enum gpucoll_type type;
    int functor;
};
const std::vector<NativePair> &native_pairs();

/* Elements that are small enough for sums and products of a few ranks to stay interesting in every type. */
void fill(enum gpucoll_type type, void *buffer, size_t count, Random &random);

/* What this process has of /dev/shm, mapped or open, and whatever there bears gpucoll's name: should be nothing. */
std::vector<std::string> shm_traces();

#endif
