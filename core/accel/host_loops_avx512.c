#include "core/accel/host_loops.h"

#ifdef GPUCOLL_HOST_LOOPS_X86
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")
#define LOOPS gpucoll_host_loops_avx512
#include "core/accel/host_loops_body.h"
#endif
