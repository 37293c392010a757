#include "kernels/exchange.cuh"

GPUCOLL_REDUCERS_FLOAT(GPUCOLL_EXCHANGE_OF)
