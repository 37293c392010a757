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
