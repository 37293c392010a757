#include "core/accel/host_pair.h"

#include "core/accel/accel.h"
#include "core/accel/host_lines.h"
#include "core/base/sizes.h"

/* The rows of a channel have one line. They use the area again and again, and end in credits, as those of a warp do. */
struct rows {
    uint64_t send; /* lines of the messages */
    uint64_t recv;
    uint64_t all; /* up to which there are lines or credits */
    uint64_t window;
};

static struct rows rows_of(const struct gpucoll_host_pair *pair)
{
    struct rows rows = {gpucoll_ll128_lines(pair->send_bytes, 1), gpucoll_ll128_lines(pair->recv_bytes, 1), 0,
                        gpucoll_stream_rows(pair->channels)};
    rows.all = gpucoll_larger(rows.send, rows.recv);
    return rows;
}

/* Data; or where a message has ended and the other goes on, and not all of it finds room, a credit. */
static bool is_sent(const struct gpucoll_host_pair *pair, const struct rows *rows, uint64_t row,
                    uint64_t lines)
{
    const uint64_t line = row * pair->channels + pair->channel;
    return line < lines ||
           (rows->all > rows->window * pair->channels && line < rows->all && row % GPUCOLL_STREAM_BATCH == 0);
}

static char *place_of(const struct gpucoll_host_pair *pair, const struct rows *rows, uint32_t lane,
                      uint64_t row)
{
    return line_at(pair->args, lane, 0, 0, row % rows->window * pair->channels + pair->channel);
}

/* What a line of the row carries in the lane of `lane`: the epoch, and beside it the wave. */
static uint64_t flag_of(const struct gpucoll_host_pair *pair, const struct rows *rows, uint32_t lane,
                        uint64_t row)
{
    return row / rows->window << 32 | pair->args->peer[lane].epoch;
}

static void send_row(const struct gpucoll_host_pair *pair, const struct rows *rows, uint64_t row)
{
    const uint32_t peer = 1 - pair->args->rank;
    const uint64_t line = row * pair->channels + pair->channel;
    char *to = place_of(pair, rows, peer, row);
    if (!is_sent(pair, rows, row, rows->send)) {
        return;
    }
    if (line < rows->send) {
        const struct span span = line_span(pair->send_bytes, line);
        memcpy(to, (const char *)pair->send + span.begin, span.bytes);
    }
    __atomic_store_n((uint64_t *)line_epoch(to), flag_of(pair, rows, peer, row), __ATOMIC_RELEASE);
}

static void keep_line(const struct gpucoll_host_pair *pair, uint64_t line, const char *came)
{
    const struct span span = line_span(pair->recv_bytes, line);
    char *to = (char *)pair->recv + span.begin;
    if (pair->own == NULL) {
        memcpy(to, came, span.bytes);
        return;
    }
    _Alignas(GPUCOLL_PACK_BYTES) char sum[LINE_DATA];
    const char *own = (const char *)pair->own + span.begin;
    const bool first = pair->args->rank == 0;
    gpucoll_host_reduce(pair->functor, sum, first ? own : came, first ? came : own,
                        span.bytes / gpucoll_host_functor_size(pair->functor));
    memcpy(to, sum, span.bytes);
}

static bool take_row(const struct gpucoll_host_pair *pair, const struct rows *rows, uint64_t row)
{
    const uint32_t own = pair->args->rank;
    const uint64_t line = row * pair->channels + pair->channel;
    char *from = place_of(pair, rows, own, row);
    struct wait wait = {.args = pair->args, .source = 1 - own};
    if (!is_sent(pair, rows, row, rows->recv)) {
        return true;
    }
    const uint64_t flag = flag_of(pair, rows, own, row);
    while (__atomic_load_n((uint64_t *)line_epoch(from), __ATOMIC_ACQUIRE) != flag) {
        if (!wait_turn(&wait)) {
            return false;
        }
    }
    if (line < rows->recv) {
        keep_line(pair, line, from);
    }
    return true;
}

bool gpucoll_host_pair(const struct gpucoll_host_pair *pair)
{
    const struct rows rows = rows_of(pair);
    for (uint64_t row = 0; row * pair->channels + pair->channel < rows.all; row++) {
        send_row(pair, &rows, row);
        if (!take_row(pair, &rows, row)) {
            return false;
        }
    }
    return true;
}
