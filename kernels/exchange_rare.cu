#include "kernels/exchange.cuh"

GPUCOLL_EXCHANGE_OF(rare, RARE, pack)
