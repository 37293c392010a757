#include "kernels/exchange.cuh"

GPUCOLL_FUNCTORS_PAIR(GPUCOLL_EXCHANGE_OF)
