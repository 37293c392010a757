#include "kernels/exchange.cuh"

GPUCOLL_FUNCTORS_INTEGER(GPUCOLL_EXCHANGE_OF)
