#include "kernels/relay.cuh"

GPUCOLL_REDUCERS_INTEGER(GPUCOLL_RELAY_OF)
