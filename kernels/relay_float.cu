#include "kernels/relay.cuh"

GPUCOLL_FUNCTORS_FLOAT(GPUCOLL_RELAY_OF)
