#include "core/gate.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include "core/base/clock.h"
#include "core/base/thread.h"
#include "core/context.h"
#include "core/plan/algorithm.h"
#include "core/request.h"

/* How long a kernel keeps its SMs for peers whose kernels have not come: longer than a turn of a GPU that processes share. Twice as long each time,
 * so that ranks whose own GPUs let them begin at different times meet in the end; and each rank another time, so that of a circle
 * one gives way before the others do. */
static const uint64_t patience_ns = 4000000;
static const uint64_t patience_of_a_rank_ns = 100000;
static const uint8_t most_doublings = 6;
/* How long it stays away, for others to be launched meanwhile. */
static const uint64_t pause_ns = 200000;

enum gate_state {
    GATE_NONE,    /* the kernel has none, or has passed it */
    GATE_ASKED,   /* launched: none of its CTAs is resident, as far as is known. It stands in nobody's way */
    GATE_BEGUN,   /* some are, and hold SMs that perhaps a peer's kernel lacks */
    GATE_COUNTED, /* all are, and it is counted */
    GATE_LEAVING, /* told to end */
    GATE_OUTSIDE  /* ended: to be launched again */
};

static const long nap_ns = 500000; /* of the keeper: it matters only to who waits for long */

bool gpucoll_gate_wanted(const struct gpucoll_request *request)
{
    return request->company != GPUCOLL_ALONE && request->plan.algorithm->waits;
}

static _Atomic uint64_t *count_of(const struct gpucoll_request *request)
{
    return &request->team->members[0].board->gathered[request->call % GPUCOLL_RING];
}

/* The count when all ranks' kernels are ready. */
static uint64_t complete(const struct gpucoll_request *request)
{
    return request->call << 8 | request->team->size;
}

static void count_in(const struct gpucoll_request *request)
{
    _Atomic uint64_t *count = count_of(request);
    uint64_t seen = atomic_load_explicit(count, memory_order_relaxed);
    uint64_t base;
    do {
        base = seen >> 8 == request->call ? seen : request->call << 8;
    } while (!atomic_compare_exchange_weak_explicit(count, &seen, base + 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
}

/* False: all have been counted, and go on. */
static bool count_out(const struct gpucoll_request *request)
{
    _Atomic uint64_t *count = count_of(request);
    uint64_t seen = atomic_load_explicit(count, memory_order_acquire);
    do {
        if (seen == complete(request)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(count, &seen, seen - 1, memory_order_acq_rel,
                                                    memory_order_acquire));
    return true;
}

static void enter(struct gpucoll_gate *gate, enum gate_state state)
{
    gate->state = (uint8_t)state;
    gate->since_ns = gpucoll_now_ns();
}

static bool has_waited(const struct gpucoll_gate *gate, uint64_t ns)
{
    return gpucoll_now_ns() - gate->since_ns > ns;
}

static bool is_impatient(const struct gpucoll_request *request)
{
    const uint8_t doublings =
        request->gate.retreats < most_doublings ? request->gate.retreats : most_doublings;
    return has_waited(&request->gate, (patience_ns + request->team->rank * patience_of_a_rank_ns)
                                          << doublings);
}

/* Has the kernel written its launch to this word of its status? */
static bool is_said(const struct gpucoll_request *request, const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) == request->gate.launch;
}

static void tell(const struct gpucoll_request *request, uint32_t *word)
{
    __atomic_store_n(word, request->gate.launch, __ATOMIC_RELEASE);
}

static void leave(struct gpucoll_request *request)
{
    tell(request, &request->lane->status->leave);
    enter(&request->gate, GATE_LEAVING);
}

/* One step of a gate, without anything of the driver. The caller holds the lock. */
static void step(struct gpucoll_request *request)
{
    struct gpucoll_kernel_status *status = request->lane->status;
    struct gpucoll_gate *gate = &request->gate;
    if (gate->state == GATE_ASKED && is_said(request, &status->began)) {
        enter(gate, GATE_BEGUN);
    }
    if (gate->state == GATE_BEGUN && is_said(request, &status->ready)) {
        count_in(request);
        gate->counted = true;
        enter(gate, GATE_COUNTED);
    } else if (gate->state == GATE_BEGUN && is_impatient(request)) {
        leave(request);
    }
    if (gate->state == GATE_COUNTED) {
        const bool all = atomic_load_explicit(count_of(request), memory_order_acquire) == complete(request);
        const bool impatient = is_impatient(request);
        if (all || (impatient && !count_out(request))) {
            tell(request, &status->go);
            gate->state = GATE_NONE;
        } else if (impatient) {
            leave(request);
        }
    }
    if (gate->state == GATE_LEAVING && is_said(request, &status->retreated)) {
        enter(gate, GATE_OUTSIDE);
    }
}

/* The caller holds the lock. */
static void take_off(struct gpucoll_gates *gates, const struct gpucoll_request *request)
{
    struct gpucoll_request **link = &gates->first;
    while (*link != NULL && *link != request) {
        link = &(*link)->gate.next;
    }
    if (*link != NULL) {
        *link = request->gate.next;
    }
}

static void *keep(void *arg)
{
    struct gpucoll_gates *gates = arg;
    pthread_mutex_lock(&gates->lock);
    while (!gates->stop) {
        if (gates->first == NULL) {
            pthread_cond_wait(&gates->work, &gates->lock);
            continue;
        }
        pthread_mutex_unlock(&gates->lock);
        nanosleep(&(struct timespec){.tv_nsec = nap_ns}, NULL);
        pthread_mutex_lock(&gates->lock);
        for (struct gpucoll_request *request = gates->first; request != NULL; request = request->gate.next) {
            step(request);
        }
    }
    pthread_mutex_unlock(&gates->lock);
    return NULL;
}

void gpucoll_gates_open(struct gpucoll_gates *gates, const struct gpucoll_log *log)
{
    *gates = (struct gpucoll_gates){.log = log};
    pthread_mutex_init(&gates->lock, NULL);
    pthread_cond_init(&gates->work, NULL);
}

void gpucoll_gates_close(struct gpucoll_gates *gates)
{
    pthread_mutex_lock(&gates->lock);
    gates->stop = true;
    pthread_cond_signal(&gates->work);
    pthread_mutex_unlock(&gates->lock);
    if (gates->kept) {
        pthread_join(gates->keeper, NULL);
    }
    pthread_cond_destroy(&gates->work);
    pthread_mutex_destroy(&gates->lock);
}

/* Starts the keeper with the first gate. The caller holds the lock. */
static void wake_keeper(struct gpucoll_gates *gates)
{
    if (!gates->kept && !gates->unkept) {
        gates->kept = gpucoll_thread_start(&gates->keeper, keep, gates) == 0;
        gates->unkept = !gates->kept;
        if (gates->unkept) {
            gpucoll_log(
                gates->log, GPUCOLL_LOG_WARN,
                "no thread to look after the kernels of several calls at once (the system gives no more "
                "threads): threads that "
                "free device memory while collectives run may hold each other up until coll_gpucoll_timeout");
        }
    }
    pthread_cond_signal(&gates->work);
}

/* The kernel was launched once more. */
static void ask(struct gpucoll_request *request)
{
    request->gate.launch = request->lane->done;
    enter(&request->gate, GATE_ASKED);
}

void gpucoll_gate_begin(struct gpucoll_request *request)
{
    struct gpucoll_gates *gates = &request->team->context->gates;
    request->gated = true;
    pthread_mutex_lock(&gates->lock);
    request->gate.retreats = 0;
    request->gate.counted = false;
    ask(request);
    request->gate.next = gates->first;
    gates->first = request;
    wake_keeper(gates);
    pthread_mutex_unlock(&gates->lock);
}

void gpucoll_gate_pass_by(struct gpucoll_request *request)
{
    count_in(request);
}

static gpucoll_status launch_again(struct gpucoll_request *request, struct gpucoll_gates *gates)
{
    struct gpucoll_lane *lane = request->lane;
    gpucoll_status status =
        request->gpu->device->accel->ops->launch_again(lane->stream, gpucoll_next_done(&lane->done));
    if (status != GPUCOLL_OK) {
        return status;
    }
    gpucoll_log(request->team->context->log, GPUCOLL_LOG_PLAN,
                "the kernel of call %" PRIu64 " has made way for other calls, and is launched again",
                request->call);
    pthread_mutex_lock(&gates->lock);
    request->gate.retreats++;
    ask(request);
    pthread_mutex_unlock(&gates->lock);
    return GPUCOLL_IN_PROGRESS;
}

gpucoll_status gpucoll_gate_test(struct gpucoll_request *request)
{
    if (!request->gated) {
        return GPUCOLL_OK;
    }
    struct gpucoll_gates *gates = &request->team->context->gates;
    pthread_mutex_lock(&gates->lock);
    step(request);
    const bool again = request->gate.state == GATE_OUTSIDE && has_waited(&request->gate, pause_ns);
    request->gated = request->gate.state != GATE_NONE;
    if (!request->gated) {
        take_off(gates, request);
    }
    pthread_mutex_unlock(&gates->lock);
    if (again) {
        return launch_again(request, gates);
    }
    return request->gated ? GPUCOLL_IN_PROGRESS : GPUCOLL_OK;
}

bool gpucoll_gate_awaits_peers(struct gpucoll_request *request)
{
    if (!request->gated) {
        return false;
    }
    struct gpucoll_gates *gates = &request->team->context->gates;
    pthread_mutex_lock(&gates->lock);
    const bool awaits = request->gate.state != GATE_NONE && request->gate.counted;
    pthread_mutex_unlock(&gates->lock);
    return awaits;
}

void gpucoll_gate_drop(struct gpucoll_request *request)
{
    struct gpucoll_gates *gates = &request->team->context->gates;
    if (!request->gated) {
        return;
    }
    pthread_mutex_lock(&gates->lock);
    take_off(gates, request);
    pthread_mutex_unlock(&gates->lock);
    request->gated = false;
}
