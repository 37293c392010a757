#include "kernels/exchange.cuh"

GPUCOLL_FUNCTORS_LOGICAL(GPUCOLL_EXCHANGE_OF)
