#define LOOPS gpucoll_host_loops_plain
#include "core/accel/host_loops_body.h"
