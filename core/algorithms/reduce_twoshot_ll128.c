/*
 * Reduce by the kernel of the two-shot all-reduce over LL128, whose result the ranks beside the root leave where it arrives: for messages of some ten
 * KiB and more. Where all send to the root it takes in all messages, and reduces them alone; here each rank does a part of both. (Reduce-scatter and
 * gather, Rabenseifner 2004, but that all gather: the kernel that stays for the next call need not hear who the root is.)
 */
#include "core/algorithms/twoshot.h"
#include "core/plan/algorithm.h"
#include "core/request.h"

static gpucoll_status start(struct gpucoll_request *request)
{
    const struct gpucoll_kernel_run *run = &request->runs.run[request->root];
    struct gpucoll_kernel_args args;
    gpucoll_kernel_args_init(request, &args);
    args.send = run->send;
    args.recv = request->team->rank == request->root ? run->recv : NULL;
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_TWOSHOT_LL128, &args);
}

const struct gpucoll_algorithm gpucoll_reduce_twoshot_ll128 = {
    .name = "twoshot",
    .protocol = "ll128",
    .help =
        "the kernel of the all-reduce of this name, whose result only the root keeps; for middle sizes over "
        "NVLink",
    .coll = GPUCOLL_REDUCE,
    .rank_order = true,
    .waits = true,
    .unusable = gpucoll_twoshot_ll128_unusable,
    .shape = gpucoll_twoshot_ll128_shape,
    .start = start,
    .progress = gpucoll_kernel_wait,
};
