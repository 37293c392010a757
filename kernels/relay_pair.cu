#include "kernels/relay.cuh"

GPUCOLL_FUNCTORS_PAIR(GPUCOLL_RELAY_OF)
