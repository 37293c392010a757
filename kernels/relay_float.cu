#include "kernels/relay.cuh"

GPUCOLL_REDUCERS_FLOAT(GPUCOLL_RELAY_OF)
