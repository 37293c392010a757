#include "core/model.h"

const struct gpucoll_model gpucoll_model_default = {
    .launch_us = 7.2,
    .agree_us = 0.5,
    .fence_us = 1.5,
    .cta_bandwidth = 11e9,
    .ll_bandwidth = 6e9,
    .local_bandwidth = 4260e9,
    .barrier_us = 2.0,
};

double gpucoll_model_bandwidth(double cta_bandwidth, double ctas, double most, double link_bandwidth)
{
    ctas = ctas < 1 ? 1 : ctas > most ? most : ctas;
    double bandwidth = cta_bandwidth * ctas;
    return bandwidth < link_bandwidth ? bandwidth : link_bandwidth;
}
