/*
 * Company: what else may run on this process's GPU while a call's kernel waits for those of other ranks, such that the kernel is to have a gate
 * (core/gate.h). Other calls of gpucoll are seen by their lanes. Kernels of NCCL wait for other ranks as well, and nobody tells of them; that
 * the library is in the process is what can be known.
 */
#ifndef GPUCOLL_COMPANY_H
#define GPUCOLL_COMPANY_H

#include <stdbool.h>

struct gpucoll_context;
struct gpucoll_lane;

/* `loads` and `here` are read and written without a lock. */
struct gpucoll_company {
    const char *library;      /* how the name of its file begins; NULL: none is looked for */
    unsigned long long loads; /* of the process, when it was last looked for; 0: never */
    bool here;                /* it was found, and stays */
};

/* Has this rank company in a call that has taken `lane`? As coll_gpucoll_gates says. */
bool gpucoll_has_company(struct gpucoll_context *context, const struct gpucoll_lane *lane);

/* Is a shared library in the process of which the file's name begins so? Some ten nanoseconds while no library is loaded. */
bool gpucoll_library_is_here(struct gpucoll_company *company);

#endif
