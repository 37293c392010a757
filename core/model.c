#include "core/model.h"

#include "kernels/kernel_abi.h"

/* H200 with NVLink 4, measured with the limits and kernel benches (docs/design.md). */
const struct gpucoll_model gpucoll_model_default = {
    .agree_us = 0.5,
    .launch_us = 9.0,
    .ring_us = 2.0,
    .crew_us = 1.0,
    .hop_us = 1.2,
    .fence_us = 2.0,
    .ll_cta_bandwidth = 30e9,
    .ll128_cta_bandwidth = 20e9,
    .simple_cta_bandwidth = 11e9,
    .link_share = 0.95,
    .local_bandwidth = 4260e9,
    .barrier_us = 2.0,
};

double gpucoll_model_transfer_us(const struct gpucoll_plan_input *input, uint64_t bytes, unsigned ctas, double cta_bandwidth)
{
    double most = gpucoll_model_default.link_share * input->bandwidth;
    double bandwidth = ctas * cta_bandwidth;
    return (double)bytes / (bandwidth < most ? bandwidth : most) * 1e6;
}

/* A CTA for every pack each thread can take, up to the most allowed. */
static unsigned launch_ctas(const struct gpucoll_plan_input *input, unsigned threads)
{
    uint64_t packs = (input->bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    uint64_t ctas = (packs + threads - 1) / threads;
    uint64_t most = (uint64_t)input->config->max_ctas;
    return (unsigned)(ctas == 0 ? 1 : ctas < most ? ctas : most);
}

void gpucoll_model_shape_lines(const struct gpucoll_plan_input *input, unsigned hops, uint64_t bytes, double cta_bandwidth,
                               struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = &gpucoll_model_default;
    const struct gpucoll_config *config = input->config;
    double steps = model->agree_us + hops * (model->hop_us + input->latency_us);
    plan->threads = gpucoll_whole_warps(config->threads);
    plan->ctas = launch_ctas(input, plan->threads);
    plan->predicted_us = steps + model->launch_us + gpucoll_model_transfer_us(input, bytes, plan->ctas, cta_bandwidth);

    unsigned crew = input->crew < (unsigned)config->max_ctas ? input->crew : (unsigned)config->max_ctas;
    if (config->linger == 0 || crew == 0 || input->nranks > GPUCOLL_BELL_MAX_RANKS) {
        return;
    }
    unsigned working = plan->ctas < crew ? plan->ctas : crew;
    double lingering = steps + model->ring_us + (working > 1 ? model->crew_us : 0) +
                       gpucoll_model_transfer_us(input, bytes, working, cta_bandwidth);
    if (lingering < plan->predicted_us) {
        plan->linger = true;
        plan->ctas = crew;
        plan->predicted_us = lingering;
    }
}
