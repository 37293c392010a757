#include "core/accel/host_loops.h"

#ifdef GPUCOLL_HOST_LOOPS_X86
#pragma GCC target("avx2")
#define LOOPS gpucoll_host_loops_avx2
#include "core/accel/host_loops_body.h"
#endif
