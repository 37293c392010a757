#include "kernels/exchange.cuh"

GPUCOLL_FUNCTORS_FLOAT(GPUCOLL_EXCHANGE_OF)
