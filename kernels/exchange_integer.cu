#include "kernels/exchange.cuh"

GPUCOLL_REDUCERS_INTEGER(GPUCOLL_EXCHANGE_OF)
