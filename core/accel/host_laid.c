/*
 * The exchange of runs that have layouts (MOVE_LAYOUTS) on the host, by the same search for a packed position as the kernel's.
 */
#include "core/accel/host_kernels.h"
#include "core/accel/host_sync.h"

enum { PIECE = 4096 };

/* One end of a run. */
struct end {
    char *user;
    uint64_t bytes;
    const struct gpucoll_layout_view *layout; /* NULL: one byte behind the other */
};

/* A channel's part of a call. */
struct part {
    const struct gpucoll_kernel_args *args;
    const struct gpucoll_kernel_runs *runs;
    uint32_t channel;
    uint32_t channels;
};

static struct end send_end(const struct part *part, uint32_t rank)
{
    const struct gpucoll_kernel_run *run = &part->runs->run[rank];
    return (struct end){(char *)(uintptr_t)run->send, run->send_bytes, part->runs->layouts[rank].send};
}

static struct end recv_end(const struct part *part, uint32_t rank)
{
    const struct gpucoll_kernel_run *run = &part->runs->run[rank];
    return (struct end){run->recv, run->recv_bytes, part->runs->layouts[rank].recv};
}

static struct span share_of(const struct part *part, uint64_t bytes)
{
    return span_of_channel(bytes, part->channel, part->channels);
}

/* What comes after `done` bytes of a share, and fits between. */
static struct span piece_of(struct span share, uint64_t done)
{
    const uint64_t rest = share.bytes - done;
    return (struct span){share.begin + done, rest < PIECE ? rest : PIECE};
}

/* Copies a piece from where it lies to `packed`, or the other way round. */
static void copy(const struct end *end, struct span piece, char *packed, bool to_user)
{
    if (end->layout != NULL) {
        gpucoll_host_copy_laid(end->layout, end->user, piece.begin, piece.bytes, packed, to_user);
    } else {
        char *user = end->user + piece.begin;
        memcpy(to_user ? user : packed, to_user ? packed : user, piece.bytes);
    }
}

static void send(const struct part *part, uint32_t peer)
{
    _Alignas(64) char packed[PIECE];
    const struct end from = send_end(part, peer);
    const struct span share = share_of(part, from.bytes);
    for (uint64_t done = 0; done < share.bytes; done += PIECE) {
        const struct span piece = piece_of(share, done);
        copy(&from, piece, packed, false);
        ll_send(part->args, peer, packed, piece);
    }
}

static bool receive(const struct part *part, uint32_t source)
{
    _Alignas(64) char packed[PIECE];
    const struct end to = recv_end(part, source);
    const struct span share = share_of(part, to.bytes);
    for (uint64_t done = 0; done < share.bytes; done += PIECE) {
        const struct span piece = piece_of(share, done);
        if (!ll_receive(part->args, source, piece, packed)) {
            return false;
        }
        copy(&to, piece, packed, true);
    }
    return true;
}

static void keep_own(const struct part *part)
{
    _Alignas(64) char packed[PIECE];
    const struct end from = send_end(part, part->args->rank);
    const struct end to = recv_end(part, part->args->rank);
    const struct span share = share_of(part, to.bytes);
    for (uint64_t done = 0; done < share.bytes; done += PIECE) {
        const struct span piece = piece_of(share, done);
        copy(&from, piece, packed, false);
        copy(&to, piece, packed, true);
    }
}

bool gpucoll_host_laid(uint32_t channel, uint32_t channels, const struct gpucoll_kernel_args *args,
                       const struct gpucoll_kernel_runs *runs)
{
    const struct part part = {args, runs, channel, channels};
    for (uint32_t i = 1; i < args->nranks; i++) {
        send(&part, (args->rank + i) % args->nranks);
    }
    keep_own(&part);
    for (uint32_t i = 1; i < args->nranks; i++) {
        if (!receive(&part, (args->rank + i) % args->nranks)) {
            return false;
        }
    }
    return true;
}
