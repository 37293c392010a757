#include "coll_gpucoll_observe.h"

#include <pthread.h>
#include "coll_gpucoll_edges.h"
#include "core/trace.h"

_Static_assert((int)GPUCOLL_OBSERVED_COUNT <= (int)GPUCOLL_STATS_COLLS,
               "statistics tell all collectives apart");

static const char *names[GPUCOLL_OBSERVED_COUNT] = {
    [GPUCOLL_OBSERVED_REDUCE_LOCAL] = "reduce_local",
};

static void take_names_of_the_engine(void)
{
    for (int i = 0; i <= GPUCOLL_BARRIER; i++) {
        names[i] = gpucoll_coll_name((enum gpucoll_coll)i);
    }
}

const char *const *gpucoll_observed_names(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, take_names_of_the_engine);
    return names;
}

/* The number and the form that a slot's name says: "scan", "iscan", "scan_init". No collective begins with an i. */
static int identify(const char *slot, enum gpucoll_form *form)
{
    static const char init[] = "_init";
    const char *const *names = gpucoll_observed_names();
    size_t length = strlen(slot);
    *form = GPUCOLL_FORM_BLOCKING;
    if (slot[0] == 'i') {
        *form = GPUCOLL_FORM_NONBLOCKING;
        slot++;
        length--;
    } else if (length > sizeof init && strcmp(slot + length - (sizeof init - 1), init) == 0) {
        *form = GPUCOLL_FORM_PERSISTENT;
        length -= sizeof init - 1;
    }
    for (int i = 0; i < GPUCOLL_OBSERVED_COUNT; i++) {
        if (strncmp(names[i], slot, length) == 0 && names[i][length] == '\0') {
            return i;
        }
    }
    return GPUCOLL_OBSERVED_REDUCE_LOCAL;
}

/* The longest block: what goes from one rank to another. */
static uint64_t longest_block(const struct gpucoll_region *region)
{
    uint64_t longest = 0;
    int blocks = region->layout == GPUCOLL_EVEN && region->blocks > 1 ? 1 : region->blocks;
    for (int i = 0; i < blocks; i++) {
        const uint64_t bytes = gpucoll_region_bytes(region, region->first + i);
        longest = bytes > longest ? bytes : longest;
    }
    return longest;
}

static uint64_t bytes_of(const struct gpucoll_call *call)
{
    uint64_t out = longest_block(&call->recv.out);
    uint64_t in = longest_block(call->send.in.blocks > 0 ? &call->send.in : &call->recv.in);
    return out > in ? out : in;
}

/* Is it never native on the communicator in this form? */
static bool is_ruled_out(const struct gpucoll_module *self, enum gpucoll_coll coll, enum gpucoll_form form)
{
    return gpucoll_coll_is_neighborhood(coll) &&
           !gpucoll_edges_allow(coll, form == GPUCOLL_FORM_BLOCKING, self->comm);
}

static bool is_turned_off(enum gpucoll_coll coll, enum gpucoll_form form)
{
    const struct gpucoll_config *config = &mca_coll_gpucoll_component.config;
    return (form != GPUCOLL_FORM_BLOCKING && !config->nonblocking) ||
           (gpucoll_coll_is_neighborhood(coll) && !config->neighborhood);
}

/* Why the call is not native. What the ranks agreed on is told once: the next call may have another reason. */
static enum gpucoll_reason find_reason(const struct gpucoll_call *call, enum gpucoll_coll coll,
                                       enum gpucoll_form form)
{
    struct gpucoll_module *self = call->module;
    if (self == NULL) {
        return call->declined;
    }
    if (self->declined != GPUCOLL_REASON_NONE) {
        return self->declined;
    }
    if (self->calls.state == GPUCOLL_NATIVE_OFF) {
        return GPUCOLL_REASON_TEAM;
    }
    if (is_turned_off(coll, form)) {
        return GPUCOLL_REASON_PARAMETER;
    }
    return is_ruled_out(self, coll, form) ? GPUCOLL_REASON_FORM : GPUCOLL_REASON_OPERAND;
}

static void describe(struct gpucoll_call *call, int coll, enum gpucoll_form form, enum gpucoll_way way,
                     uint8_t detail)
{
    const uint64_t bytes = bytes_of(call);
    call->observed = (struct gpucoll_observed_call){
        .bytes = bytes,
        .key =
            {
                .coll = (uint8_t)coll,
                .form = (uint8_t)form,
                .way = (uint8_t)way,
                .detail = detail,
                .size_class = gpucoll_size_class(bytes),
            },
    };
}

void gpucoll_observe_next_start(struct gpucoll_call *call)
{
    struct gpucoll_observed_call *observed = &call->observed;
    if (__builtin_expect(observed->key.size_class == 0, true)) {
        return; /* nobody wanted to know when it was described */
    }
    observed->begun = true;
    observed->traced = gpucoll_trace_on();
    if (observed->traced) {
        const bool staged = observed->key.way == GPUCOLL_WAY_STAGED;
        const char *why = gpucoll_reason_text((enum gpucoll_reason)observed->key.detail);
        observed->range = gpucoll_trace_begin(
            observed->key.form == GPUCOLL_FORM_BLOCKING, observed->bytes, "%s %llu B, %s%s", call->name,
            (unsigned long long)observed->bytes, staged ? "staged: " : "on host memory", staged ? why : "");
    }
    observed->ticks = gpucoll_ticks();
}

/* Only blocking reductions are made in rank order where the engine does not run them (coll_gpucoll_ordered.h). */
static void warn_of_order(const struct gpucoll_call *call)
{
    static bool said;
    enum gpucoll_form form;
    int coll = identify(call->name, &form);
    if (form != GPUCOLL_FORM_BLOCKING && coll < GPUCOLL_COLL_COUNT &&
        gpucoll_coll_reduces((enum gpucoll_coll)coll) &&
        !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED)) {
        gpucoll_help(&mca_coll_gpucoll_component.log, "not-deterministic", call->name,
                     "its nonblocking and persistent forms are reduced in rank order on the GPU only");
    }
}

void gpucoll_observe_next(struct gpucoll_call *call, bool staged)
{
    struct gpucoll_component *component = &mca_coll_gpucoll_component;
    call->observed.begun = false;
    call->observed.key.size_class = 0;
    gpucoll_tally(staged ? &component->counters.staged : &component->counters.passed, 1);
    if (__builtin_expect(staged || gpucoll_stats_on(&component->stats) || gpucoll_trace_on(), false)) {
        enum gpucoll_form form;
        int coll = identify(call->name, &form);
        enum gpucoll_reason reason = find_reason(call, (enum gpucoll_coll)coll, form);
        if (staged) {
            gpucoll_log(&component->log, GPUCOLL_LOG_CALL, "%s: staged through host memory: %s", call->name,
                        gpucoll_reason_text(reason));
        }
        if (gpucoll_stats_on(&component->stats) || gpucoll_trace_on()) {
            describe(call, coll, form, staged ? GPUCOLL_WAY_STAGED : GPUCOLL_WAY_PASSED,
                     staged ? (uint8_t)reason : 0);
            if (form != GPUCOLL_FORM_PERSISTENT) {
                gpucoll_observe_next_start(call);
            }
        }
    }
    if (__builtin_expect(component->config.deterministic, false)) {
        warn_of_order(call);
    }
    if (call->module != NULL) {
        call->module->declined = GPUCOLL_REASON_NONE;
    }
}

/* Tells a profiler, and statistics if it `counts`. */
static void finish(struct gpucoll_call *call, bool counts)
{
    struct gpucoll_observed_call *observed = &call->observed;
    struct gpucoll_stats *stats = &mca_coll_gpucoll_component.stats;
    observed->begun = false;
    if (observed->traced) {
        gpucoll_trace_end(observed->key.form == GPUCOLL_FORM_BLOCKING, observed->range);
    }
    if (counts && gpucoll_stats_on(stats)) {
        gpucoll_stats_add(stats, observed->key, observed->bytes, 0, gpucoll_ticks() - observed->ticks);
    }
}

void gpucoll_observe_next_done(struct gpucoll_call *call)
{
    if (__builtin_expect(call->observed.begun, false)) {
        finish(call, true);
    }
}

void gpucoll_observe_local(struct gpucoll_call *call)
{
    struct gpucoll_observed_call *observed = &call->observed;
    observed->begun = false;
    if (__builtin_expect(!gpucoll_stats_on(&mca_coll_gpucoll_component.stats) && !gpucoll_trace_on(), true)) {
        return;
    }
    describe(call, GPUCOLL_OBSERVED_REDUCE_LOCAL, GPUCOLL_FORM_BLOCKING, GPUCOLL_WAY_NATIVE,
             GPUCOLL_DETAIL_LOCAL);
    observed->begun = true;
    observed->traced = gpucoll_trace_on();
    if (observed->traced) {
        observed->range = gpucoll_trace_begin(true, observed->bytes, "%s %llu B", call->name,
                                              (unsigned long long)observed->bytes);
    }
    observed->ticks = gpucoll_ticks();
}

void gpucoll_observe_local_done(struct gpucoll_call *call, const struct gpucoll_local *local,
                                gpucoll_status status)
{
    if (__builtin_expect(call->observed.begun, false)) {
        call->observed.key.ctas = (uint16_t)local->ctas;
        finish(call, status == GPUCOLL_OK);
    }
}
