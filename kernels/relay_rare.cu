#include "kernels/relay.cuh"

GPUCOLL_RELAY_OF(rare, RARE, pack)
