#include "core/plan/model.h"

#include <math.h>
#include <string.h>

/* Of H100 and H200 alike, which have the same SMs and links: what one was measured for was right for the other. */
/* clang-format off */
#define HOPPER                                                                                               \
    .agree_us = 0.5,                                                                                         \
    .launch_us = 10.4,                                                                                       \
    .ring_us = 3.6,                                                                                          \
    .crew_us = 0.7,                                                                                          \
    .hop_us = 0.5,                                                                                           \
    .fence_us = 3.0,                                                                                         \
    .ll_cta_bandwidth = 27.5e9,                                                                              \
    .ll128_cta_bandwidth = 27.5e9,                                                                           \
    .simple_cta_bandwidth = 20e9,                                                                            \
    .link_share = 0.94,                                                                                      \
    /* docs/design-direct.md */                                                                              \
    .bulk_cta_bandwidth = 48e9,                                                                              \
    .bulk_us = 1.6,                                                                                          \
    .copy_us = 8.5,                                                                                          \
    .copy_each_us = 2.0,                                                                                     \
    .copy_hop_us = 8.0,                                                                                      \
    .copy_link_share = 1.08,                                                                                 \
    .barrier_us = 2.0,                                                                                       \
    /* Of PCIe 5 x16, as its specification promises; not measured. */                                        \
    .host_copy_us = 8.0,                                                                                     \
    .host_bandwidth = 50e9,                                                                                  \
    .cpu_bandwidth = 12e9
/* clang-format on */

static const struct gpucoll_model h100 = {HOPPER, .arrive_us = 1.6};
static const struct gpucoll_model h200 = {HOPPER, .arrive_us = 0.9};

/* `source` names what the constants were fitted to: `gpucoll_info --tune` on a machine, or files under bench/results. */
static const struct gpucoll_model_entry entries[] = {
    {
        .gpu = "H200",
        .whole_lines = true,
        .source = "2 and 4 x NVIDIA H200, NVLink 4 (bench/results/plans-4xH200.json, plans-2xH200.json)",
        .model = &h200,
    },
    {
        .gpu = "H100 80GB HBM3",
        .whole_lines = true,
        .source = "4 x NVIDIA H100 80GB HBM3, NVLink 4 (bench/results/plans-4xH100.json)",
        .model = &h100,
    },
};

const struct gpucoll_model_entry *gpucoll_model_entry_at(int index)
{
    return index >= 0 && index < (int)(sizeof entries / sizeof entries[0]) ? &entries[index] : NULL;
}

/* As words of it: a GH200 is no H200. */
static bool has_words(const char *name, const char *words)
{
    const char *at = strstr(name, words);
    const char after = at != NULL ? at[strlen(words)] : ' ';
    return at != NULL && (at == name || at[-1] == ' ') && (after == '\0' || after == ' ');
}

int gpucoll_model_find(const char *gpu, bool whole_lines)
{
    const struct gpucoll_model_entry *entry;
    for (int i = 0; (entry = gpucoll_model_entry_at(i)) != NULL; i++) {
        if (entry->whole_lines == whole_lines && has_words(gpu, entry->gpu)) {
            return i;
        }
    }
    return GPUCOLL_MODEL_UNKNOWN;
}

const struct gpucoll_model *gpucoll_model_of(int index)
{
    const struct gpucoll_model_entry *entry = gpucoll_model_entry_at(index);
    return entry != NULL ? entry->model : entries[0].model;
}

#define MICROSECONDS(field, sentence)                                                                        \
    {                                                                                                        \
        .name = #field, .unit = "us", .scale = 1, .offset = offsetof(struct gpucoll_model, field##_us),      \
        .help = sentence,                                                                                    \
    }
#define BANDWIDTH(field, sentence)                                                                           \
    {                                                                                                        \
        .name = #field, .unit = "GB/s", .scale = 1e9, .offset = offsetof(struct gpucoll_model, field),       \
        .help = sentence,                                                                                    \
    }
static const struct gpucoll_model_constant constants[] = {
    MICROSECONDS(agree, "all ranks see each other's calls"),
    MICROSECONDS(launch, "a kernel's launch until it runs, and its end until the host sees it"),
    MICROSECONDS(ring, "the same for a call that is given to a lingering kernel"),
    MICROSECONDS(crew, "what several CTAs of a lingering kernel cost above one"),
    MICROSECONDS(hop, "one step of LL or LL128, without the latency of the link"),
    MICROSECONDS(fence, "one step of Simple, without the latency of the link"),
    BANDWIDTH(ll_cta_bandwidth, "what one CTA stores by LL, flags counted"),
    BANDWIDTH(ll128_cta_bandwidth, "what one CTA stores by LL128, flags counted"),
    BANDWIDTH(simple_cta_bandwidth, "what one CTA stores by Simple"),
    {
        .name = "link_share",
        .unit = "",
        .scale = 1,
        .offset = offsetof(struct gpucoll_model, link_share),
        .help = "of the transport's bandwidth that kernels reach with many CTAs",
    },
    BANDWIDTH(bulk_cta_bandwidth, "what one CTA that reduces in bulk reads and stores of a message"),
    MICROSECONDS(bulk, "what a launched kernel that reduces in bulk takes beside: until its first tile is "
                       "stored, and after its "
                       "last"),
    MICROSECONDS(
        arrive,
        "at the end of a call in bulk by a lingering kernel: until what it has stored to several peers "
        "has arrived"),
    MICROSECONDS(copy, "a call by copy engines: until the first copy begins, and after the last"),
    MICROSECONDS(copy_each, "of the host, for each copy, or batch of them, that it queues"),
    MICROSECONDS(copy_hop, "a chunk seen by the next rank's host, and its copies queued"),
    {
        .name = "copy_link_share",
        .unit = "",
        .scale = 1,
        .offset = offsetof(struct gpucoll_model, copy_link_share),
        .help = "of the transport's bandwidth that copy engines reach",
    },
    MICROSECONDS(barrier, "barrier of the hosts between two kernels"),
    MICROSECONDS(host_copy, "a copy between device and host memory, until the host sees its end"),
    BANDWIDTH(host_bandwidth, "what a copy engine moves between device and host memory, each way"),
    BANDWIDTH(cpu_bandwidth, "what a thread reads and reduces in host memory"),
};
_Static_assert(sizeof constants / sizeof constants[0] == GPUCOLL_MODEL_CONSTANTS,
               "every constant has its row");

const struct gpucoll_model_constant *gpucoll_model_constant_at(int index)
{
    return index >= 0 && index < GPUCOLL_MODEL_CONSTANTS ? &constants[index] : NULL;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double over_us(double link, double bytes, double ctas, double most, double cta_bandwidth)
{
    const double bandwidth = cta_bandwidth * (ctas < 1 ? 1 : least(ctas, most));
    return bytes / least(bandwidth, link) * 1e6;
}

double gpucoll_model_transfer_us(const struct gpucoll_plan_input *input, double bytes, double ctas,
                                 double most, double cta_bandwidth)
{
    return over_us(input->model->link_share * input->bandwidth, bytes, ctas, most, cta_bandwidth);
}

double gpucoll_model_bulk_transfer_us(const struct gpucoll_plan_input *input, double bytes, unsigned crew,
                                      double busy, double cta_bandwidth)
{
    /* Two ranks reach all of it (plans of 2 H200). */
    const double share = input->nranks > 2 ? input->model->link_share : 1;
    return over_us(share * input->bandwidth, bytes, busy, crew, cta_bandwidth);
}

const double gpucoll_model_many_share = 0.94; /* rings, chains and two-shot of 4 H100 */

/* A thread stores a pack to every peer; what it does with it beside takes as long as so many of these stores. */
static const double stores_beside = 2;
/* What a launch of as many CTAs as there may be takes above its steps and bytes, over LL and LL128. */
static const double crowd_us = 3;

/* In the one hop of a crew that has waited for the call, so much of the stores is over before the first line has arrived. */
static const double under_way_us = 1.4;

/* Crews: one CTA, where that suffices, a small one, or twice and four times as many. */
static const unsigned small_crew = 8;

/* What each CTA of a crew adds to what several cost, and of one that is not small, how much a CTA stores of what it does in a small one, and how
 * much all do of what a launch of many CTAs brings over the links. By LL, which has one hop, and by LL128, which has two. */
static const double crew_each_us = 0.015;
static const struct several {
    double cta_share;
    double link_share;
} few = {1, 1}, by_ll = {0.85, 0.85}, by_ll128 = {1, 0.88};

double gpucoll_model_crowd_us(double ctas, double most)
{
    return crowd_us * (ctas < most ? ctas / most : 1);
}

double gpucoll_model_lines_bandwidth(double cta_bandwidth, uint32_t peers)
{
    return cta_bandwidth * peers / (peers + stores_beside);
}

/* Does one CTA of a crew do the call by itself? The kernels do not choose the faster way: it is a matter of the call's size alone. */
static bool goes_alone(const struct gpucoll_plan_input *input, const struct gpucoll_lines *lines,
                       const struct gpucoll_plan *plan)
{
    return gpucoll_leader_suffices(lines->kernel, input->bytes, input->nranks, plan->threads);
}

/* The same as a call of a crew of `crew` CTAs, if that is faster. `share` is what it has to do in CTAs, `steps` the time of its hops. */
static void try_crew(const struct gpucoll_plan_input *input, const struct gpucoll_lines *lines, unsigned crew,
                     double share, double steps, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const double cta_bandwidth = gpucoll_model_lines_bandwidth(lines->cta_bandwidth, lines->together);
    const bool alone = crew == 1 || goes_alone(input, lines, plan);
    const struct several *several = crew <= small_crew ? &few : lines->hops == 1 ? &by_ll : &by_ll128;
    const double least_us =
        lines->stored / (several->link_share * model->link_share * input->bandwidth) * 1e6;
    const double transfer_us = gpucoll_model_transfer_us(input, lines->stored, alone ? 1 : share, crew,
                                                         several->cta_share * cta_bandwidth);
    const double stores = transfer_us > least_us ? transfer_us : least_us;
    const double hidden = lines->hops == 1 ? least(stores, under_way_us) : 0;
    gpucoll_plan_offer_crew(plan, crew,
                            steps + gpucoll_model_ring_us(model, alone ? 1 : crew) + stores - hidden);
}

/* CTAs of a rank that may linger together. */
static unsigned most_that_linger(const struct gpucoll_plan_input *input)
{
    const struct gpucoll_config *config = input->config;
    return config->linger == 0 || input->nranks > GPUCOLL_BELL_MAX_RANKS
               ? 0
               : (unsigned)least(least(input->crew, config->linger_ctas), gpucoll_most_ctas(input));
}

/* Crews of all sizes that there may be. */
static void try_crews(const struct gpucoll_plan_input *input, const struct gpucoll_lines *lines, double share,
                      double steps, struct gpucoll_plan *plan)
{
    const struct gpucoll_config *config = input->config;
    /* Beside a computation a small crew that stays is enough: more would keep SMs from it after the call. */
    const unsigned most = input->unattended ? small_crew : GPUCOLL_CREW_CTAS;
    const unsigned crew = gpucoll_least_of(most_that_linger(input), most);
    if (crew > 0 && config->channels <= 1 && goes_alone(input, lines, plan)) {
        try_crew(input, lines, 1, share, steps, plan);
        return;
    }
    for (unsigned asked = small_crew; asked <= GPUCOLL_CREW_CTAS; asked *= 2) {
        const unsigned some = asked < crew ? asked : crew;
        if (some > 0 && some >= (unsigned)config->channels) {
            try_crew(input, lines, some, share, steps, plan);
        }
    }
}

void gpucoll_model_shape_lines(const struct gpucoll_plan_input *input, const struct gpucoll_lines *lines,
                               struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const struct gpucoll_config *config = input->config;
    const double stored = lines->stored;
    double most = gpucoll_most_ctas(input);
    if (lines->most_ctas > 0) {
        most = least(most, lines->most_ctas);
    }
    plan->threads = gpucoll_whole_warps(config->threads);
    /* A CTA for every pack that each thread can take. The prediction takes part of a CTA for what it is, or it would
     * fall at each new one. */
    double share = lines->packed / ((double)plan->threads * GPUCOLL_PACK_BYTES);
    double ctas = gpucoll_wanted_ctas(input, share);
    plan->ctas = (unsigned)least(ctas + 1, most);
    const double cta_bandwidth = gpucoll_model_lines_bandwidth(lines->cta_bandwidth, lines->together);
    double steps = model->agree_us + lines->hops * (lines->hop_us + input->latency_us) + lines->longer_us;
    plan->predicted_us = steps + model->launch_us + gpucoll_model_crowd_us(ctas, most) +
                         gpucoll_model_transfer_us(input, stored, ctas, most, cta_bandwidth);

    if (!lines->alike) {
        try_crews(input, lines, ctas, steps, plan);
    }
}

/* CTAs that move in bulk are started in pairs. */
static double whole_pairs(double ctas)
{
    return 2 * ceil(ctas / 2);
}

/* A crew that stays is missed by who computes, by other calls, and by processes that have the GPU in turn; its bell counts bytes by 32 bits; and that the
 * end of the call waits for what was stored to peers is known of NVLink (docs/design-direct.md). */
unsigned gpucoll_model_bulk_crew(const struct gpucoll_plan_input *input, uint64_t bytes, double good)
{
    const unsigned channels = (unsigned)input->config->channels;
    const unsigned most = most_that_linger(input);
    if (!input->bulk || !input->whole_lines || input->unattended || input->crowded ||
        gpucoll_turns(input) > 1 || bytes > UINT32_MAX) {
        return 0;
    }
    if (channels > 0) {
        return channels <= most ? channels : 0;
    }
    return 2 * (unsigned)(least(whole_pairs(good), most) / 2);
}

double gpucoll_model_bulk_fill(const struct gpucoll_plan_input *input, double fill)
{
    /* So many cost an application's kernel that fills the GPU hardly more than a single one, and more of them do (docs/design-direct.md). */
    const double most_unattended = 8;
    const double pairs = whole_pairs(fill);
    return input->unattended ? least(pairs, most_unattended) : pairs;
}

const double gpucoll_model_store_bandwidth = 44e9;

uint32_t gpucoll_model_bulk_ctas(const struct gpucoll_plan_input *input, double share)
{
    const double most = gpucoll_most_ctas(input);
    const double ctas = input->config->channels > 0 ? share : whole_pairs(share);
    return (uint32_t)(ctas < 1 ? 1 : ctas < most ? ctas : most);
}

double gpucoll_model_ring_us(const struct gpucoll_model *model, unsigned crew)
{
    return model->ring_us + (crew > 1 ? model->crew_us + crew_each_us * crew : 0);
}

double gpucoll_model_bulk_ring_us(const struct gpucoll_plan_input *input, unsigned crew)
{
    /* A fence of the system (docs/design-direct.md). What went to one peer only has arrived as soon as two hosts have agreed (plans of 2 H200). */
    return gpucoll_model_ring_us(input->model, crew) + (input->nranks == 2 ? 0 : input->model->arrive_us);
}

void gpucoll_plan_offer_crew(struct gpucoll_plan *plan, unsigned crew, double predicted_us)
{
    if (predicted_us >= plan->predicted_us) {
        return;
    }
    if (!plan->linger) {
        plan->launch_ctas = plan->ctas;
        plan->launched_us = plan->predicted_us;
    }
    plan->linger = true;
    plan->ctas = crew;
    plan->predicted_us = predicted_us;
}

double gpucoll_model_share_us(const struct gpucoll_plan_input *input, double bytes,
                              struct gpucoll_share share)
{
    const double us = share.share * bytes / input->bandwidth * 1e6 - share.after_us;
    return us < 0 ? 0 : least(us, share.most_us);
}

double gpucoll_model_copies_us(const struct gpucoll_plan_input *input, double leaves, unsigned copies,
                               unsigned hops)
{
    const struct gpucoll_model *model = input->model;
    return model->agree_us + model->copy_us + copies * model->copy_each_us + hops * model->copy_hop_us +
           leaves / (model->copy_link_share * input->bandwidth) * 1e6;
}

/* What each SM has of the memory of the GPU if all use it: 4.8 TB/s over 132 SMs of an H200. */
static const double sm_bandwidth = 36e9;

/* A pack of n parts is read and one is written for n - 1 that come. */
uint32_t gpucoll_model_sum_ctas(const struct gpucoll_plan_input *input)
{
    const double comes = input->model->copy_link_share * input->bandwidth;
    const double wanted = ceil(2 * comes * (input->nranks + 1) / (input->nranks - 1) / sm_bandwidth);
    const uint32_t most = gpucoll_most_ctas(input);
    const double ctas = gpucoll_wanted_ctas(input, input->unattended ? most : wanted);
    return ctas < most ? (uint32_t)ctas : most;
}

double gpucoll_model_sum_us(const struct gpucoll_plan_input *input, double bytes, uint32_t ctas)
{
    const double touched = bytes * (input->nranks + 1);
    return input->model->launch_us + touched / (ctas * sm_bandwidth) * 1e6;
}
