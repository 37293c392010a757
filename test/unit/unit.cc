#include "test/unit/unit.h"
#include <cstdlib>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

std::chrono::nanoseconds cpu_time()
{
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::string source_file(const std::string &path)
{
    const char *moved = getenv("GPUCOLL_TEST_SRCDIR"); /* the source of a build that ran elsewhere */
    return std::string(moved ? moved : GPUCOLL_TEST_SRCDIR) + "/" + path;
}

std::string help_file()
{
    return source_file("ompi/mca/coll/gpucoll/help-mpi-coll-gpucoll.txt");
}

static bool read_topic(const std::string &topic, std::string &text)
{
    std::ifstream file(help_file());
    bool inside = false;
    bool found = false;
    for (std::string line; std::getline(file, line);) {
        if (!line.empty() && line[0] == '[') {
            inside = line.compare(0, topic.size() + 2, "[" + topic + "]") == 0;
            found = found || inside;
        } else if (inside && (line.empty() || line[0] != '#')) {
            text += line + "\n";
        }
    }
    return found;
}

RecordingLog::RecordingLog(int verbosity)
{
    memset(&log, 0, sizeof log);
    log.verbosity = verbosity;
    log.print = print;
    log.help = help;
    log.arg = this;
}

void RecordingLog::print(void *arg, int, const char *line)
{
    auto *self = static_cast<RecordingLog *>(arg);
    std::lock_guard<std::mutex> guard(self->mutex);
    self->printed.push_back(line);
}

void RecordingLog::help(void *arg, const char *topic, va_list args)
{
    auto *self = static_cast<RecordingLog *>(arg);
    std::string format;
    EXPECT_TRUE(read_topic(topic, format)) << "the help file has no topic " << topic;
    char text[4096];
    vsnprintf(text, sizeof text, format.c_str(), args);
    std::lock_guard<std::mutex> guard(self->mutex);
    self->helps.push_back({topic, text});
}

std::vector<std::string> RecordingLog::lines() const
{
    std::lock_guard<std::mutex> guard(mutex);
    return printed;
}

std::string RecordingLog::text() const
{
    std::string text;
    for (const std::string &line : lines()) {
        text += line + "\n";
    }
    return text;
}

std::vector<std::string> RecordingLog::topics() const
{
    std::lock_guard<std::mutex> guard(mutex);
    std::vector<std::string> names;
    for (const Help &help : helps) {
        names.push_back(help.topic);
    }
    return names;
}

std::string RecordingLog::text_of(const std::string &topic) const
{
    std::lock_guard<std::mutex> guard(mutex);
    std::string all;
    for (const Help &help : helps) {
        all += help.topic == topic ? help.text : "";
    }
    return all;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t Random::next()
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static std::vector<NativePair> find_native_pairs()
{
    std::vector<NativePair> pairs;
    for (int op = 0; op < GPUCOLL_OP_COUNT; op++) {
        for (int type = 0; type < GPUCOLL_TYPE_COUNT; type++) {
            const auto the_op = static_cast<gpucoll_op>(op);
            const auto the_type = static_cast<gpucoll_type>(type);
            const int functor = gpucoll_functor(the_op, the_type);
            if (functor >= 0) {
                pairs.push_back({the_op, the_type, functor});
            }
        }
    }
    return pairs;
}

const std::vector<NativePair> &native_pairs()
{
    static const std::vector<NativePair> pairs = find_native_pairs();
    return pairs;
}

template <typename T> static void fill_with(void *buffer, size_t count, Random &random)
{
    for (size_t i = 0; i < count; i++) {
        T value = static_cast<T>(static_cast<int>(random.below(19)) - 9) / static_cast<T>(1);
        memcpy(static_cast<char *>(buffer) + i * sizeof(T), &value, sizeof value);
    }
}

template <typename Value, typename Location>
static void fill_pairs(void *buffer, size_t count, Random &random)
{
    struct Pair {
        Value value;
        Location location;
    };
    memset(buffer, 0, count * sizeof(Pair));
    for (size_t i = 0; i < count; i++) {
        char *at = static_cast<char *>(buffer) + i * sizeof(Pair);
        auto value = static_cast<Value>(random.below(4));
        auto location = static_cast<Location>(random.below(100));
        memcpy(at + offsetof(Pair, value), &value, sizeof value);
        memcpy(at + offsetof(Pair, location), &location, sizeof location);
    }
}

void fill(enum gpucoll_type type, void *buffer, size_t count, Random &random)
{
    if (count == 0) {
        return; /* `buffer` may be null */
    }
    switch (type) {
    case GPUCOLL_FLOAT32:
    case GPUCOLL_COMPLEX64:
        return fill_with<float>(buffer, count * gpucoll_type_size(type) / sizeof(float), random);
    case GPUCOLL_FLOAT64:
    case GPUCOLL_COMPLEX128:
        return fill_with<double>(buffer, count * gpucoll_type_size(type) / sizeof(double), random);
    case GPUCOLL_SHORT_INT:
        return fill_pairs<int16_t, int32_t>(buffer, count, random);
    case GPUCOLL_INT_INT:
        return fill_pairs<int32_t, int32_t>(buffer, count, random);
    case GPUCOLL_LONG_INT:
        return fill_pairs<int64_t, int32_t>(buffer, count, random);
    case GPUCOLL_FLOAT_INT:
        return fill_pairs<float, int32_t>(buffer, count, random);
    case GPUCOLL_DOUBLE_INT:
        return fill_pairs<double, int32_t>(buffer, count, random);
    case GPUCOLL_FLOAT_FLOAT:
        return fill_pairs<float, float>(buffer, count, random);
    case GPUCOLL_DOUBLE_DOUBLE:
        return fill_pairs<double, double>(buffer, count, random);
    default: /* any bits are a number */
        size_t bytes = count * gpucoll_type_size(type);
        for (size_t at = 0; at < bytes; at += 8) {
            uint64_t value = random.next();
            memcpy(static_cast<char *>(buffer) + at, &value, bytes - at < 8 ? bytes - at : 8);
        }
    }
}

std::vector<std::string> shm_traces()
{
    std::vector<std::string> traces;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find("/dev/shm/") != std::string::npos) {
            traces.push_back(line);
        }
    }
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
        std::string target = std::filesystem::read_symlink(entry.path(), error);
        if (target.find("/dev/shm/") != std::string::npos) {
            traces.push_back(target);
        }
    }
    for (const auto &entry : std::filesystem::directory_iterator("/dev/shm", error)) {
        std::string name = entry.path().filename();
        if (name.find("gpucoll") != std::string::npos) {
            traces.push_back(name);
        }
    }
    return traces;
}
