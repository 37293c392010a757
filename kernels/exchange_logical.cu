#include "kernels/exchange.cuh"

GPUCOLL_REDUCERS_LOGICAL(GPUCOLL_EXCHANGE_OF)
