#include "kernels/relay.cuh"

GPUCOLL_REDUCERS_PAIR(GPUCOLL_RELAY_OF)
