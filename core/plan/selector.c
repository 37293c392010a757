#include "core/plan/selector.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "core/plan/forced.h"
#include "kernels/kernel_abi.h"

/* Processes that share a GPU have its SMs in turn, unless under MPS, and a copy within a GPU's memory counts as a kernel: each time that all of them have one, one
 * waits for all others. Copies to and from the host go beside all that (docs/design-sharing.md has the figures). */
static const double turn_us = 145;

/* Of two ranks, does one alone have something to do on the GPU: the root that copies to the other, or the other that reduces for it? */
static bool one_works(const struct gpucoll_algorithm *row, const struct gpucoll_plan_input *input)
{
    return input->nranks == 2 && ((gpucoll_goes_from_root(input->coll) && row->coll == GPUCOLL_ANY_MOVE) ||
                                  (input->coll == GPUCOLL_REDUCE && row->bulk));
}

/* How often that is. */
static uint32_t turns_of(const struct gpucoll_algorithm *row, const struct gpucoll_plan_input *input)
{
    const bool by_host = row->needs != 0 && !row->late_kernels;
    return by_host || one_works(row, input) ? 0 : row->phases > 0 ? row->phases : 1;
}

/* What is left to a kernel that waits for other ranks, and so holds its SMs, where those of all lanes are to be on the GPU with it. It
 * has a gate, and so does not linger. */
static struct gpucoll_plan_input crowded(const struct gpucoll_plan_input *input)
{
    struct gpucoll_plan_input lane = *input;
    const unsigned resident = input->resident > 0 ? input->resident : GPUCOLL_MAX_CHANNELS;
    const unsigned each = resident / (unsigned)input->config->lanes;
    lane.resident = each > 1 ? each : 1;
    lane.crew = 0;
    return lane;
}

/* What a call takes longer that nobody waits in, until it has been waited for after all: its request, which the library moves on, and of copies the host's
 * news of their end (collectives of 2 and 4 H200, nonblocking and persistent calls of up to 4 MiB). */
static const double request_us = 1.2;
static const double request_of_copies_us = 2;

static double beside_us(const struct gpucoll_algorithm *algorithm, const struct gpucoll_plan_input *input)
{
    return !input->unattended ? 0 : algorithm->spares_sms ? request_us + request_of_copies_us : request_us;
}

void gpucoll_shape(const struct gpucoll_algorithm *algorithm, const struct gpucoll_plan_input *input,
                   struct gpucoll_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->algorithm = algorithm;
    if (input->crowded && algorithm->waits) {
        const struct gpucoll_plan_input lane = crowded(input);
        algorithm->shape(&lane, plan);
    } else {
        algorithm->shape(input, plan);
    }
    if (gpucoll_turns(input) > 1) {
        plan->predicted_us += turns_of(algorithm, input) * gpucoll_turns(input) * turn_us;
    }
    plan->predicted_us += beside_us(algorithm, input);
    plan->launched_us += plan->linger ? beside_us(algorithm, input) : 0;
}

const char *gpucoll_unusable(const struct gpucoll_algorithm *row, const struct gpucoll_plan_input *input)
{
    if (gpucoll_coll_reduces(input->coll) && !row->rank_order) {
        if (input->config->deterministic) {
            return "it does not reduce in rank order, which coll_gpucoll_deterministic asks for";
        }
        if (input->apart) { /* as all that may linger do: bits are not to depend on when calls come */
            return "it does not reduce in rank order, as what runs the call where it comes in time does";
        }
    }
    const char *lack = gpucoll_algorithm_lacks(row, input);
    if (lack != NULL) {
        return lack;
    }
    if (row->waits && gpucoll_turns(input) > 1) {
        return "two ranks share a GPU, where kernels that wait for each other cannot run side by side "
               "(without MPS)";
    }
    const char *unusable = row->unusable != NULL ? row->unusable(input) : NULL;
    if (unusable != NULL) {
        return unusable;
    }
    if (row->steps && input->unattended) {
        return "it needs the host between its steps, and nobody waits in the call";
    }
    if (row->direct && input->direct == GPUCOLL_DIRECT_NOT) {
        return "peers cannot write to the buffers: small, used for the first time, or not to be shared";
    }
    if (row->bulk && (!input->bulk || input->direct != GPUCOLL_DIRECT_BULK)) {
        return "peers cannot read the buffers in bulk: not to be shared, not at multiples of 16 bytes, or a "
               "GPU that does not do so";
    }
    return NULL;
}

/*
 * A call that nobody waits in is made to go on beside an application that computes. How much longer than one by copy engines alone it
 * may be predicted to take and still be as welcome (docs/design-direct.md has the figures, beside a matrix product that takes all SMs):
 *   - kernels take SMs from the application, whose kernel is then late by a round of its tiles; more SMs, more of them
 *   - kernels between copies, and those of phases, begin when the application's kernel ends, so that not much of the call is hidden; but much is where all
 *     copies go on without them
 */
static const double worth_of_any_sm = 1.3;
static const double worth_of_all_sms = 2; /* beside that */
static const double worth_of_late_kernels = 4;

static double cost_of(const struct gpucoll_plan *plan, const struct gpucoll_plan_input *input)
{
    const double call_us = plan->predicted_us - beside_us(plan->algorithm, input);
    if (!input->unattended || plan->algorithm->spares_sms) {
        return call_us;
    }
    if (plan->algorithm->last_kernels) {
        return call_us * worth_of_any_sm;
    }
    const double share = (double)plan->ctas / GPUCOLL_MAX_CHANNELS; /* as many as a large GPU has SMs */
    return call_us * (plan->algorithm->late_kernels ? worth_of_late_kernels
                                                    : worth_of_any_sm + share * worth_of_all_sms);
}

/* The row of the least cost among those of the named algorithm and protocol. NULL if none can be used; then
 * `why` says what stood against the first one of that name. Calls beside it do not count: rows differ in the order of their sums, and the bits of
 * a result are not to depend on what else happened to be under way. */
static const struct gpucoll_algorithm *cheapest(const struct gpucoll_plan_input *input, const char *name,
                                                const char *protocol, const char **why)
{
    const struct gpucoll_algorithm *best = NULL;
    const struct gpucoll_algorithm *row;
    struct gpucoll_plan_input alone = *input;
    double least = 0;
    alone.crowded = false;
    *why = NULL;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (!gpucoll_algorithm_runs(row, input->coll) ||
            (gpucoll_forces(name) && strcmp(row->name, name) != 0) ||
            (gpucoll_forces(protocol) && strcmp(row->protocol, protocol) != 0)) {
            continue;
        }
        const char *unusable = gpucoll_unusable(row, input);
        if (unusable != NULL) {
            *why = *why == NULL ? unusable : *why;
            continue;
        }
        struct gpucoll_plan plan;
        gpucoll_shape(row, &alone, &plan);
        const double cost = cost_of(&plan, &alone);
        if (best == NULL || cost < least) {
            best = row;
            least = cost;
        }
    }
    *why = *why == NULL ? "there is no such algorithm with this protocol" : *why;
    return best;
}

/* What the parameters force for a message. */
struct forced {
    char name[GPUCOLL_FORCED_NAME];
    char protocol[GPUCOLL_FORCED_NAME];
};

/* A protocol that is forced for all collectives binds those that have it. */
static void find_forced(const struct gpucoll_plan_input *input, uint64_t bytes, struct forced *forced)
{
    char protocol[GPUCOLL_FORCED_NAME];
    const struct gpucoll_algorithm *row;
    memset(forced, 0, sizeof *forced);
    gpucoll_forced_name(input->config->algorithm[input->coll], bytes, forced->name);
    gpucoll_forced_name(input->config->protocol, bytes, protocol);
    memcpy(forced->protocol, "auto", sizeof "auto");
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (gpucoll_algorithm_runs(row, input->coll) && strcmp(row->protocol, protocol) == 0) {
            memcpy(forced->protocol, protocol, sizeof protocol);
        }
    }
}

/* The bounds of a size's class: sixteen to an octave, none narrower than a pack, each with its upper end. */
static void find_class(uint64_t bytes, struct gpucoll_choice *choice)
{
    uint64_t step = GPUCOLL_PACK_BYTES;
    for (uint64_t octave = 16 * step; octave < bytes; octave *= 2) {
        step = octave / 16;
    }
    uint64_t number = bytes == 0 ? 0 : (bytes - 1) / step;
    choice->low = number == 0 ? 0 : number * step + 1;
    choice->high = (number + 1) * step;
}

/* Can the same algorithms run the whole class, and is it one item of the parameters that forces? */
static bool is_uniform(const struct gpucoll_plan_input *input, const struct gpucoll_choice *choice)
{
    struct gpucoll_plan_input low = *input;
    struct gpucoll_plan_input high = *input;
    const struct gpucoll_algorithm *row;
    low.bytes = choice->low;
    high.bytes = choice->high;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (gpucoll_algorithm_runs(row, input->coll) &&
            (gpucoll_unusable(row, &low) == NULL) != (gpucoll_unusable(row, &high) == NULL)) {
            return false;
        }
    }
    return gpucoll_forced_alike(input->config->algorithm[input->coll], choice->low, choice->high) &&
           gpucoll_forced_alike(input->config->protocol, choice->low, choice->high);
}

gpucoll_status gpucoll_choose(const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                              uint32_t *said, struct gpucoll_choice *choice)
{
    struct forced forced;
    const char *why = NULL;
    struct gpucoll_plan_input at = *input;
    find_class(input->bytes, choice);
    if (!is_uniform(input, choice)) {
        choice->low = choice->high = input->bytes;
    }
    at.bytes = choice->high;
    find_forced(input, input->bytes, &forced);
    choice->algorithm = cheapest(&at, forced.name, forced.protocol, &why);
    if (choice->algorithm != NULL) {
        return GPUCOLL_OK;
    }
    if (!gpucoll_forces(forced.name) && !gpucoll_forces(forced.protocol)) {
        return GPUCOLL_DECLINED;
    }
    if ((*said >> input->coll & 1) == 0) {
        *said |= 1u << input->coll;
        gpucoll_help(log, "algorithm-unusable", forced.name, forced.protocol, gpucoll_coll_name(input->coll),
                     (size_t)input->bytes, (unsigned)input->nranks, why);
    }
    choice->algorithm = cheapest(&at, "auto", "auto", &why);
    return choice->algorithm != NULL ? GPUCOLL_OK : GPUCOLL_DECLINED;
}

gpucoll_status gpucoll_select(const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                              uint32_t *said, struct gpucoll_plan *plan)
{
    struct gpucoll_choice choice;
    gpucoll_status status = gpucoll_choose(input, log, said, &choice);
    if (status == GPUCOLL_OK) {
        gpucoll_shape(choice.algorithm, input, plan);
    }
    return status;
}

static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

void gpucoll_select_explain(const struct gpucoll_plan_input *input, char *text, size_t size)
{
    text[0] = '\0';
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (!gpucoll_algorithm_runs(row, input->coll)) {
            continue;
        }
        append(text, size, "%s%s/%s ", text[0] != '\0' ? ", " : "", row->name, row->protocol);
        const char *unusable = gpucoll_unusable(row, input);
        if (unusable != NULL) {
            append(text, size, "cannot (%s)", unusable);
            continue;
        }
        struct gpucoll_plan candidate;
        gpucoll_shape(row, input, &candidate);
        append(text, size, "%.1f us", candidate.predicted_us);
    }
    const char *name = input->config->algorithm[input->coll];
    const char *protocol = input->config->protocol;
    if (gpucoll_forces(name) || gpucoll_forces(protocol)) {
        append(text, size, "; set: algorithm %s, protocol %s", name, protocol);
    }
}
