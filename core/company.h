/*
 * Company: what else may run on this process's GPU while a call's kernel waits for those of other ranks, such that the kernel is to have a gate
 * (core/gate.h). Other calls of gpucoll are seen by their lanes. Kernels of NCCL wait for other ranks as well, and nobody tells of them; that
 * the library is in the process is what can be known.
 *
 * Calls beside each other also share the GPU's SMs: each has so many CTAs at most that the kernels of all lanes are on it at once. Gates alone
 * would not do: of several calls that each find room on some ranks only, all may retreat again and again (docs/design-calls.md).
 */
#ifndef GPUCOLL_COMPANY_H
#define GPUCOLL_COMPANY_H

#include <stdbool.h>

struct gpucoll_context;
struct gpucoll_lane;

/* What a rank has, and of what all ranks of a call have, the most. */
enum gpucoll_company_kind {
    GPUCOLL_ALONE,
    GPUCOLL_BESIDE_OTHERS, /* kernels that nobody tells of may run */
    GPUCOLL_BESIDE_CALLS   /* other calls of the process hold lanes of the same GPU */
};

/* In a post, beside the kind: calls on the rank's lane have lately come too far apart for kernels to linger (core/habit.h). */
enum { GPUCOLL_COMPANY_APART = 0x80 };

/* `loads` and `here` are read and written without a lock. */
struct gpucoll_company {
    const char *library;      /* how the name of its file begins; NULL: none is looked for */
    unsigned long long loads; /* of the process, when it was last looked for; 0: never */
    bool here;                /* it was found, and stays */
};

/* What this rank has in a call that has taken `lane`. As coll_gpucoll_gates says. */
enum gpucoll_company_kind gpucoll_company_of(struct gpucoll_context *context,
                                             const struct gpucoll_lane *lane);

/* Is a shared library in the process of which the file's name begins so? Some ten nanoseconds while no library is loaded. */
bool gpucoll_library_is_here(struct gpucoll_company *company);

#endif
