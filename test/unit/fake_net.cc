#include "test/unit/fake_net.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <set>

namespace
{

struct Posted {
    uint64_t tag;
    void *to;
    size_t bytes;
    bool up_to; /* so many bytes, or fewer */
    gpucoll_net_message *message;
};

struct Arrival {
    uint64_t tag;
    const void *from; /* the sender's memory, or `copy` */
    std::unique_ptr<char[]> copy;
    size_t bytes;
    gpucoll_net_message *message; /* the sender's, if it waits */
    uint32_t late;                /* looks until it is there */
};

} // namespace

struct gpucoll_net {
    uint64_t number;
    bool shaken = false;
    Random random{0};
    int64_t until_failure = -1;
    bool dead = false;
    bool still = false;
    bool lends = false;
    bool copies = false;
    bool direct = false;
    uint32_t undrained = 0;
    std::list<Posted> posted;
    std::list<Arrival> arrivals;
};

struct gpucoll_net_memory {
    const char *begin;
    const char *end;
};

struct gpucoll_net_peer {
    uint64_t to; /* the number of an end, which may have been closed since */
    uint32_t connects;
};

namespace
{

std::mutex mutex; /* of everything here: tests are after mistakes of others */
uint64_t opened;
std::map<uint64_t, gpucoll_net *> ends;
using Pair = std::pair<uint64_t, uint64_t>; /* numbers of ends: from, to */
std::map<Pair, gpucoll_net_peer *> peers;
std::set<gpucoll_net_memory *> memories;
using Pairs = std::set<Pair>;
Pairs cuts;
Pairs sent;  /* something was */
Pairs asked; /* whether it has left */
uint64_t direct_messages;
uint64_t torn;

using Lock = std::lock_guard<std::mutex>;

gpucoll_status open_end(const struct gpucoll_config *config, const struct gpucoll_log *,
                        const struct gpucoll_net_place *, gpucoll_net **net)
{
    Lock lock(mutex);
    *net = new gpucoll_net;
    (*net)->number = ++opened;
    (*net)->direct = std::string(config->net_gpu_memory) == "yes";
    ends[opened] = *net;
    return GPUCOLL_OK;
}

void close_end(gpucoll_net *net)
{
    Lock lock(mutex);
    if (net != nullptr) {
        ends.erase(net->number);
        delete net;
    }
}

void address(const gpucoll_net *net, gpucoll_net_address *address)
{
    memset(address, 0, sizeof *address);
    address->bytes = sizeof net->number;
    memcpy(address->data, &net->number, sizeof net->number);
}

gpucoll_status connect(gpucoll_net *net, const gpucoll_net_address *address, gpucoll_net_peer **peer)
{
    Lock lock(mutex);
    uint64_t number = 0;
    memcpy(&number, address->data, sizeof number);
    if (address->bytes != sizeof number || ends.count(number) == 0) {
        return GPUCOLL_ERR_UNSUPPORTED;
    }
    gpucoll_net_peer *&known = peers[{net->number, number}];
    if (known == nullptr) {
        known = new gpucoll_net_peer{number, 0};
    }
    known->connects++;
    *peer = known;
    return GPUCOLL_OK;
}

void disconnect(gpucoll_net *net, gpucoll_net_peer *peer)
{
    Lock lock(mutex);
    if (--peer->connects == 0) {
        peers.erase({net->number, peer->to});
        delete peer;
    }
}

gpucoll_net_memory *reach(gpucoll_net *net, gpucoll_device *device, void *data, size_t bytes)
{
    Lock lock(mutex);
    EXPECT_NE(device, nullptr);
    EXPECT_GT(bytes, 0u);
    const char *begin = static_cast<const char *>(data);
    uintptr_t allocation = 0;
    uint64_t there = 0;
    EXPECT_TRUE(device->accel->ops->extent(device, data, &allocation, &there));
    EXPECT_LE(reinterpret_cast<uintptr_t>(begin + bytes), allocation + there) << "more than the buffer";
    if (!net->direct) {
        return nullptr;
    }
    return *memories.insert(new gpucoll_net_memory{begin, begin + bytes}).first;
}

bool has(const gpucoll_net_memory *memory, const void *data)
{
    return memory->begin <= data && data < memory->end;
}

void forget(gpucoll_net *, gpucoll_net_memory *memory)
{
    Lock lock(mutex);
    for (const auto &end : ends) {
        for (const Posted &posted : end.second->posted) {
            EXPECT_FALSE(posted.bytes > 0 && has(memory, posted.to)) << "a receive is left";
        }
        for (const Arrival &arrival : end.second->arrivals) {
            EXPECT_FALSE(arrival.message != nullptr && has(memory, arrival.from)) << "a send is left";
        }
    }
    memories.erase(memory);
    delete memory;
}

/* With the lock held. Is the data where the caller says? */
void look_at(const void *data, size_t bytes, const gpucoll_net_memory *memory)
{
    if (memory != nullptr) {
        const char *begin = static_cast<const char *>(data);
        EXPECT_TRUE(memories.count(const_cast<gpucoll_net_memory *>(memory)) == 1 && memory->begin <= begin &&
                    begin + bytes <= memory->end);
        direct_messages++;
    }
}

/* With the lock held: the end that can be reached, or NULL. */
gpucoll_net *reached(const gpucoll_net *net, const gpucoll_net_peer *peer)
{
    const auto end = ends.find(peer->to);
    const bool live = end != ends.end() && !end->second->dead && cuts.count({net->number, peer->to}) == 0;
    return live ? end->second : nullptr;
}

void send(gpucoll_net *net, gpucoll_net_peer *peer, uint64_t tag, const void *data, size_t bytes,
          gpucoll_net_memory *memory, gpucoll_net_message *message)
{
    Lock lock(mutex);
    look_at(data, bytes, memory);
    sent.insert({net->number, peer->to});
    gpucoll_net *to = reached(net, peer);
    if (to == nullptr || (net->until_failure >= 0 && net->until_failure-- == 0)) {
        message->status = GPUCOLL_ERR_SYSTEM;
        return;
    }
    Arrival arrival = {tag, data, nullptr, bytes, message, 0};
    if (net->shaken) {
        arrival.late = net->random.below(2) == 0 ? 0 : net->random.below(20);
    }
    message->status = GPUCOLL_IN_PROGRESS;
    if (net->copies || (net->random.below(2) == 0 && !net->lends)) {
        arrival.copy = std::make_unique<char[]>(bytes);
        if (bytes > 0) {
            memcpy(arrival.copy.get(), data, bytes);
        }
        arrival.from = arrival.copy.get();
        arrival.message = nullptr;
        message->status = GPUCOLL_OK;
    }
    to->arrivals.push_back(std::move(arrival));
}

void receive(gpucoll_net *net, gpucoll_net_peer *, uint64_t tag, void *data, size_t bytes,
             gpucoll_net_memory *memory, gpucoll_net_message *message)
{
    Lock lock(mutex);
    look_at(data, bytes, memory);
    message->status = GPUCOLL_IN_PROGRESS;
    net->posted.push_back({tag, data, bytes, false, message});
}

void receive_up_to(gpucoll_net *net, gpucoll_net_peer *, uint64_t tag, void *data, size_t bytes,
                   gpucoll_net_message *message)
{
    Lock lock(mutex);
    message->status = GPUCOLL_IN_PROGRESS;
    net->posted.push_back({tag, data, bytes, true, message});
}

gpucoll_status test(gpucoll_net *, gpucoll_net_message *message)
{
    Lock lock(mutex);
    return message->status;
}

void cancel(gpucoll_net *net, gpucoll_net_message *message)
{
    Lock lock(mutex);
    if (message->status != GPUCOLL_IN_PROGRESS) {
        return;
    }
    message->status = GPUCOLL_ERR_SYSTEM;
    net->posted.remove_if([&](const Posted &posted) { return posted.message == message; });
    for (auto &end : ends) {
        const size_t before = end.second->arrivals.size();
        end.second->arrivals.remove_if([&](const Arrival &arrival) { return arrival.message == message; });
        torn += before - end.second->arrivals.size();
    }
}

/* Its receiver is asked to drop it. */
void begin_cancel(gpucoll_net *, gpucoll_net_message *message)
{
    Lock lock(mutex);
    for (auto &end : ends) {
        if (!end.second->still) {
            end.second->arrivals.remove_if([&](const Arrival &arrival) {
                const bool meant = arrival.message == message;
                message->status = meant ? GPUCOLL_ERR_SYSTEM : message->status;
                return meant;
            });
        }
    }
}

void deliver(const Posted &posted, const Arrival &arrival)
{
    const bool fits = posted.up_to ? arrival.bytes <= posted.bytes : arrival.bytes == posted.bytes;
    if (fits && posted.up_to) { /* nobody is to rely on what is behind the message */
        memset(posted.to, 0xdb, posted.bytes);
    }
    if (fits && arrival.bytes > 0) {
        memcpy(posted.to, arrival.from, arrival.bytes);
    }
    posted.message->status = fits ? GPUCOLL_OK : GPUCOLL_ERR_MISMATCH;
    if (arrival.message != nullptr) {
        arrival.message->status = GPUCOLL_OK;
    }
}

bool progress(gpucoll_net *net)
{
    Lock lock(mutex);
    bool moved = false;
    if (net->still) {
        return false;
    }
    std::set<uint64_t> held; /* tags of which an earlier message is not taken yet */
    for (auto arrival = net->arrivals.begin(); arrival != net->arrivals.end();) {
        auto posted = std::find_if(net->posted.begin(), net->posted.end(),
                                   [&](const Posted &candidate) { return candidate.tag == arrival->tag; });
        const bool late = arrival->late > 0;
        arrival->late -= late;
        if (late || held.count(arrival->tag) > 0 || posted == net->posted.end()) {
            held.insert(arrival->tag);
            ++arrival;
            continue;
        }
        deliver(*posted, *arrival);
        net->posted.erase(posted);
        arrival = net->arrivals.erase(arrival);
        moved = true;
    }
    return moved;
}

bool drained(gpucoll_net *net, gpucoll_net_peer *peer, uint32_t ties)
{
    Lock lock(mutex);
    asked.insert({net->number, peer->to});
    EXPECT_EQ(ties, 1u);
    if (sent.count({net->number, peer->to}) == 0) {
        return true;
    }
    const bool all = net->undrained == 0;
    net->undrained -= !all;
    return all;
}

bool lost(gpucoll_net *net, const gpucoll_net_peer *peer)
{
    Lock lock(mutex);
    return reached(net, peer) == nullptr;
}

bool gone(gpucoll_net *net, gpucoll_net_peer *peer)
{
    return lost(net, peer);
}

} // namespace

const struct gpucoll_net_ops fake_net = {"fake", open_end,     close_end, address, connect,       disconnect,
                                         reach,  forget,       send,      receive, receive_up_to, test,
                                         cancel, begin_cancel, progress,  drained, lost,          gone};

void fake_net_shake(gpucoll_net *net, uint64_t seed)
{
    Lock lock(mutex);
    net->shaken = true;
    net->random = Random(seed);
}

/* The network of which each end, as it is opened, is prepared so. */
template <void (*prepare)(gpucoll_net *net)> static const gpucoll_net_ops *prepared()
{
    static const gpucoll_net_ops made = [] {
        gpucoll_net_ops ops = fake_net;
        ops.open = [](const struct gpucoll_config *config, const struct gpucoll_log *log,
                      const struct gpucoll_net_place *place, gpucoll_net **net) {
            const gpucoll_status status = fake_net.open(config, log, place, net);
            prepare(*net);
            return status;
        };
        return ops;
    }();
    return &made;
}

static std::atomic<uint64_t> shaken_ends;
static std::atomic<uint32_t> looks_to_hold;
static std::atomic<uint32_t> sends_to_failure;

static void shake_next(gpucoll_net *net)
{
    fake_net_shake(net, ++shaken_ends);
}

static void hold(gpucoll_net *net)
{
    Lock lock(mutex);
    net->undrained = looks_to_hold;
    net->copies = true; /* what has not been taken is not done, and so not asked about */
}

static void fail_later(gpucoll_net *net)
{
    fake_net_fail_send(net, sends_to_failure);
}

const gpucoll_net_ops *fake_net_shaken()
{
    return prepared<shake_next>();
}

const gpucoll_net_ops *fake_net_holding(uint32_t looks)
{
    looks_to_hold = looks;
    return prepared<hold>();
}

static void copy_at_once(gpucoll_net *net)
{
    Lock lock(mutex);
    net->copies = true;
}

const gpucoll_net_ops *fake_net_copying()
{
    return prepared<copy_at_once>();
}

const gpucoll_net_ops *fake_net_lending()
{
    return prepared<fake_net_lend>();
}

void fake_net_fail_send(gpucoll_net *net, uint32_t sends)
{
    Lock lock(mutex);
    net->until_failure = sends;
}

const gpucoll_net_ops *fake_net_failing(uint32_t sends)
{
    sends_to_failure = sends;
    return prepared<fail_later>();
}

void fake_net_kill(gpucoll_net *net)
{
    Lock lock(mutex);
    net->dead = true;
}

void fake_net_stand_still(gpucoll_net *net, bool still)
{
    Lock lock(mutex);
    net->still = still;
}

void fake_net_lend(gpucoll_net *net)
{
    Lock lock(mutex);
    net->lends = true;
}

void fake_net_break(gpucoll_net *net, bool arrives)
{
    Lock lock(mutex);
    for (auto arrival = net->arrivals.begin(); arrival != net->arrivals.end();) {
        if (arrival->message == nullptr) {
            ++arrival;
            continue;
        }
        arrival->message->status = GPUCOLL_ERR_SYSTEM;
        arrival->message = nullptr;
        arrival->copy = std::make_unique<char[]>(arrival->bytes);
        memcpy(arrival->copy.get(), arrival->from, arrival->bytes);
        arrival->from = arrival->copy.get();
        arrival = arrives ? std::next(arrival) : net->arrivals.erase(arrival);
    }
}

void fake_net_cut(gpucoll_net *from, gpucoll_net *to)
{
    Lock lock(mutex);
    cuts.insert({from->number, to->number});
}

bool fake_net_asked(gpucoll_net *from, gpucoll_net *to)
{
    Lock lock(mutex);
    return asked.erase({from->number, to->number}) > 0;
}

uint64_t fake_net_torn()
{
    Lock lock(mutex);
    return torn;
}

FakeNetCount fake_net_count()
{
    Lock lock(mutex);
    FakeNetCount count = {ends.size(), peers.size(), 0, 0, 0, memories.size()};
    for (const auto &end : ends) {
        count.under_way += end.second->posted.size();
        count.held += end.second->undrained;
        for (const Arrival &arrival : end.second->arrivals) {
            (arrival.message != nullptr ? count.under_way : count.unclaimed)++;
        }
    }
    return count;
}

uint64_t fake_net_direct()
{
    Lock lock(mutex);
    return direct_messages;
}
