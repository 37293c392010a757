#include "core/model.h"

#include "kernels/kernel_abi.h"

/* Of H200 with NVLink 4: fitted to bench/results/kernels-4xH200.json (docs/design.md). */
const struct gpucoll_model gpucoll_model_default = {
    .agree_us = 0.5,
    .launch_us = 10.4,
    .ring_us = 4.9,
    .crew_us = 1.0,
    .hop_us = 0.5,
    .fence_us = 3.0,
    .ll_cta_bandwidth = 20e9,
    .ll128_cta_bandwidth = 20e9,
    .simple_cta_bandwidth = 20e9,
    .link_share = 0.94,
    .copy_us = 12.0,
    .copy_each_us = 2.0,
    .copy_hop_us = 8.0,
    .copy_link_share = 1.08,
    .barrier_us = 2.0,
    /* Of PCIe 5 x16, as its specification promises; not fitted. */
    .host_copy_us = 8.0,
    .host_bandwidth = 50e9,
    .cpu_bandwidth = 12e9,
};

double gpucoll_model_transfer_us(const struct gpucoll_plan_input *input, double bytes, double ctas,
                                 double most, double cta_bandwidth)
{
    double link = gpucoll_model_default.link_share * input->bandwidth;
    double bandwidth = cta_bandwidth * (ctas < 1 ? 1 : ctas > most ? most : ctas);
    return bytes / (bandwidth < link ? bandwidth : link) * 1e6;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

void gpucoll_model_shape_lines(const struct gpucoll_plan_input *input, unsigned hops, double stored,
                               double cta_bandwidth, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = &gpucoll_model_default;
    const struct gpucoll_config *config = input->config;
    const double most = config->max_ctas;
    plan->threads = gpucoll_whole_warps(config->threads);
    /* A CTA for every pack that each thread can take. The prediction takes part of a CTA for what it is, or it would
     * fall at each new one. */
    double ctas = (double)input->bytes / ((double)plan->threads * GPUCOLL_PACK_BYTES);
    plan->ctas = (unsigned)least(ctas + 1, most);
    double steps = model->agree_us + hops * (model->hop_us + input->latency_us);
    plan->predicted_us =
        steps + model->launch_us + gpucoll_model_transfer_us(input, stored, ctas, most, cta_bandwidth);

    const double crew = least(input->crew, most);
    if (config->linger == 0 || crew == 0 || input->nranks > GPUCOLL_BELL_MAX_RANKS) {
        return;
    }
    double alone = gpucoll_model_transfer_us(input, stored, 1, 1, cta_bandwidth);
    double together = model->crew_us + gpucoll_model_transfer_us(input, stored, ctas, crew, cta_bandwidth);
    double lingering = steps + model->ring_us + least(alone, together);
    if (lingering < plan->predicted_us) {
        plan->linger = true;
        plan->ctas = (unsigned)crew;
        plan->predicted_us = lingering;
    }
}

const char *gpucoll_model_copies_unusable(const struct gpucoll_plan_input *input)
{
    return input->direct
               ? NULL
               : "peers cannot write to the buffers: small, used for the first time, or not to be shared";
}

double gpucoll_model_copies_us(const struct gpucoll_plan_input *input, double leaves, unsigned copies,
                               unsigned hops)
{
    const struct gpucoll_model *model = &gpucoll_model_default;
    return model->agree_us + model->copy_us + copies * model->copy_each_us + hops * model->copy_hop_us +
           leaves / (model->copy_link_share * input->bandwidth) * 1e6;
}
