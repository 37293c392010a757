/*
 * Relays on the host: the steps and the places of kernels/relay_abi.h, carried out some of a piece at a time.
 */
#include "core/accel/accel.h"
#include "core/accel/host_kernels.h"
#include "core/accel/host_lines.h"
#include "kernels/relay_abi.h"

enum { BLOCK = 36 * LINE_DATA };

struct relay {
    const struct gpucoll_kernel_args *args;
    int functor;
    uint32_t channel;
    struct gpucoll_relay_cut cut;
};

/* Bytes of a piece that are carried together, from `at` on. */
struct part {
    uint64_t at;
    uint64_t bytes;
    uint64_t user_at; /* of the block */
};

static uint32_t number_of(const struct relay *relay, uint32_t position)
{
    return relay->args->peer[position].number;
}

/* `at` counts bytes of data: they take twice the room in LL, 8/7 of it in LL128. */
static char *place(const struct relay *relay, uint32_t receiver, uint32_t end, uint32_t piece, uint64_t at)
{
    const struct gpucoll_kernel_args *args = relay->args;
    const uint32_t protocol = args->relay_protocol;
    const size_t room = protocol == GPUCOLL_RELAY_LL      ? 2 * at
                        : protocol == GPUCOLL_RELAY_LL128 ? at / LINE_DATA * GPUCOLL_LINE_BYTES
                                                          : at;
    return (char *)args->peer[receiver].lane +
           gpucoll_relay_slot_offset(args->relay_flow, protocol, relay->channel, end,
                                     piece % GPUCOLL_RELAY_SLOTS, relay->cut.slot_packs) +
           room;
}

static uint32_t epoch_of(const struct relay *relay, uint32_t receiver, uint32_t piece)
{
    return relay->args->peer[receiver].epoch + piece / GPUCOLL_RELAY_SLOTS;
}

static bool wait_for(const struct relay *relay, uint32_t phase, uint32_t peer, uint32_t piece)
{
    const struct gpucoll_kernel_args *args = relay->args;
    return wait_flag_of(args, gpucoll_flag_index(phase, relay->channel, peer), number_of(relay, peer), piece);
}

static void tell(const struct relay *relay, uint32_t phase, uint32_t peer, uint32_t piece)
{
    const struct gpucoll_kernel_args *args = relay->args;
    raise_flag(args->peer[peer].lane, gpucoll_flag_index(phase, relay->channel, args->rank),
               gpucoll_flag_value(args->peer[peer].epoch, piece));
}

/* ---- one part over each protocol ---- */

static bool take_words(const struct relay *relay, const struct gpucoll_relay_step *step, uint32_t source,
                       struct part part, char *to)
{
    const struct gpucoll_kernel_args *args = relay->args;
    const struct gpucoll_relay_end *from = &step->from[source];
    const char *area = place(relay, args->rank, from->end, step->received, part.at);
    const uint32_t epoch = epoch_of(relay, args->rank, step->received);
    struct wait wait = {.args = args, .source = number_of(relay, from->peer)};
    for (uint64_t at = 0; at < part.bytes; at += 4) {
        uint64_t pair;
        while ((pair = __atomic_load_n((const uint64_t *)(area + 2 * at), __ATOMIC_RELAXED)) >> 32 != epoch) {
            if (!wait_turn(&wait)) {
                return false;
            }
        }
        const uint32_t data = (uint32_t)pair;
        memcpy(to + at, &data, part.bytes - at < 4 ? part.bytes - at : 4);
    }
    return true;
}

static void give_words(const struct relay *relay, const struct gpucoll_relay_step *step, uint32_t target,
                       struct part part, const char *from)
{
    const struct gpucoll_relay_end *to = &step->to[target];
    char *area = place(relay, to->peer, to->end, step->sent, part.at);
    const uint32_t epoch = epoch_of(relay, to->peer, step->sent);
    for (uint64_t at = 0; at < part.bytes; at += 4) {
        uint32_t data = 0;
        memcpy(&data, from + at, part.bytes - at < 4 ? part.bytes - at : 4);
        store_word(area + 2 * at, data, epoch);
    }
}

static bool take_lines(const struct relay *relay, const struct gpucoll_relay_step *step, uint32_t source,
                       struct part part, char *to)
{
    const struct gpucoll_kernel_args *args = relay->args;
    const struct gpucoll_relay_end *from = &step->from[source];
    char *line = place(relay, args->rank, from->end, step->received, part.at);
    const uint32_t epoch = epoch_of(relay, args->rank, step->received);
    struct wait wait = {.args = args, .source = number_of(relay, from->peer)};
    for (uint64_t at = 0; at < part.bytes; at += LINE_DATA, line += GPUCOLL_LINE_BYTES) {
        if (!line_wait(&wait, line, epoch)) {
            return false;
        }
        memcpy(to + at, line, part.bytes - at < LINE_DATA ? part.bytes - at : LINE_DATA);
    }
    return true;
}

static void give_lines(const struct relay *relay, const struct gpucoll_relay_step *step, uint32_t target,
                       struct part part, const char *from)
{
    const struct gpucoll_relay_end *to = &step->to[target];
    char *line = place(relay, to->peer, to->end, step->sent, part.at);
    const uint32_t epoch = epoch_of(relay, to->peer, step->sent);
    for (uint64_t at = 0; at < part.bytes; at += LINE_DATA, line += GPUCOLL_LINE_BYTES) {
        line_fill(line, from + at, part.bytes - at < LINE_DATA ? part.bytes - at : LINE_DATA, epoch);
    }
}

static bool take_bytes(const struct relay *relay, const struct gpucoll_relay_step *step, uint32_t source,
                       struct part part, char *to)
{
    const char *from = place(relay, relay->args->rank, step->from[source].end, step->received, part.at);
    memcpy(to, from, part.bytes);
    return true;
}

static void give_bytes(const struct relay *relay, const struct gpucoll_relay_step *step, uint32_t target,
                       struct part part, const char *from)
{
    const struct gpucoll_relay_end *to = &step->to[target];
    memcpy(place(relay, to->peer, to->end, step->sent, part.at), from, part.bytes);
}

static const struct protocol {
    bool (*take)(const struct relay *relay, const struct gpucoll_relay_step *step, uint32_t source,
                 struct part part, char *to);
    void (*give)(const struct relay *relay, const struct gpucoll_relay_step *step, uint32_t target,
                 struct part part, const char *from);
    bool flags; /* a flag tells of each piece */
} protocols[GPUCOLL_RELAY_PROTOCOLS] = {
    [GPUCOLL_RELAY_LL] = {take_words, give_words, false},
    [GPUCOLL_RELAY_LL128] = {take_lines, give_lines, false},
    [GPUCOLL_RELAY_SIMPLE] = {take_bytes, give_bytes, true},
};

/* ---- a step ---- */

static bool carry_part(const struct relay *relay, const struct gpucoll_relay_step *step, struct part part,
                       const struct gpucoll_kernel_run *run)
{
    _Alignas(64) char sum[BLOCK];
    _Alignas(64) char term[BLOCK];
    const struct protocol *protocol = &protocols[relay->args->relay_protocol];
    const uint32_t operands = step->sources + step->reads;
    for (uint32_t k = 0; k < operands; k++) {
        char *to = k == 0 ? sum : term;
        if (k >= step->sources) {
            memcpy(to, (const char *)run->send + part.user_at, part.bytes);
        } else if (!protocol->take(relay, step, k, part, to)) {
            return false;
        }
        if (k > 0 && step->keeps) {
            memcpy((char *)run->recv + part.user_at, sum, part.bytes);
        }
        if (k > 0) {
            gpucoll_host_reduce(relay->functor, sum, sum, term,
                                part.bytes / gpucoll_host_functor_size(relay->functor));
        }
    }
    for (uint32_t k = 0; k < step->targets; k++) {
        protocol->give(relay, step, k, part, sum);
    }
    if (step->writes) {
        memcpy((char *)run->recv + part.user_at, sum, part.bytes);
    }
    return true;
}

static bool wait_before(const struct relay *relay, const struct gpucoll_relay_step *step)
{
    for (uint32_t k = 0; k < step->targets && step->sent >= GPUCOLL_RELAY_SLOTS; k++) {
        if (!wait_for(relay, PHASE_RESULT, step->to[k].peer, step->sent - GPUCOLL_RELAY_SLOTS)) {
            return false;
        }
    }
    for (uint32_t k = 0; k < step->sources && protocols[relay->args->relay_protocol].flags; k++) {
        if (!wait_for(relay, PHASE_INPUT, step->from[k].peer, step->received)) {
            return false;
        }
    }
    return true;
}

static void tell_after(const struct relay *relay, const struct gpucoll_relay_step *step)
{
    for (uint32_t k = 0; k < step->targets && protocols[relay->args->relay_protocol].flags; k++) {
        tell(relay, PHASE_INPUT, step->to[k].peer, step->sent);
    }
    for (uint32_t k = 0; k < step->sources && step->received + GPUCOLL_RELAY_SLOTS < relay->cut.total; k++) {
        tell(relay, PHASE_RESULT, step->from[k].peer, step->received);
    }
}

static bool carry(const struct relay *relay, const struct gpucoll_relay_step *step,
                  const struct gpucoll_kernel_run *run, uint32_t channels)
{
    uint64_t begin;
    uint64_t end;
    gpucoll_relay_range(run->send_bytes, channels, relay->channel, &begin, &end);
    const uint64_t packs = relay->cut.piece_packs;
    const uint64_t first = begin + step->piece * packs < end ? begin + step->piece * packs : end;
    const struct span span = span_of_packs(run->send_bytes, first, first + packs < end ? first + packs : end);
    if (!wait_before(relay, step)) {
        return false;
    }
    for (uint64_t at = 0; at < span.bytes; at += BLOCK) {
        const struct part part = {
            .at = at,
            .bytes = span.bytes - at < BLOCK ? span.bytes - at : BLOCK,
            .user_at = span.begin + at,
        };
        if (!carry_part(relay, step, part, run)) {
            return false;
        }
    }
    tell_after(relay, step);
    return true;
}

bool gpucoll_host_relay(int functor, uint32_t channel, uint32_t channels,
                        const struct gpucoll_kernel_args *args, const struct gpucoll_kernel_runs *runs)
{
    const struct relay relay = {
        .args = args,
        .functor = functor,
        .channel = channel,
        .cut = gpucoll_relay_cut_of(args->relay_flow, args->relay_protocol, args->nranks, args->bytes,
                                    channels, args->data_bytes),
    };
    struct gpucoll_relay_walk walk =
        gpucoll_relay_begin(args->relay_flow, args->rank, args->nranks, channel, &relay.cut);
    struct gpucoll_relay_step step = {0};
    while (gpucoll_relay_next(&walk, &step)) {
        const struct gpucoll_kernel_run *run = &runs->run[step.block];
        step.writes &= step.sources > 0 || run->send != run->recv;
        if (!carry(&relay, &step, run, channels)) {
            return false;
        }
    }
    return true;
}
