#include "kernels/exchange.cuh"

GPUCOLL_REDUCERS_PAIR(GPUCOLL_EXCHANGE_OF)
