#include "kernels/relay.cuh"

GPUCOLL_REDUCERS_LOGICAL(GPUCOLL_RELAY_OF)
