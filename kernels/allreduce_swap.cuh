/*
 * One-shot all-reduce of two ranks over LL128: each stores its whole message to the other and reduces both itself, in rank order, so that
 * both get the same bits. Between two ranks that is as many bytes as two-shot stores (allreduce_ll128.cuh), with one store latency
 * instead of two.
 *
 * A pack of the user's buffers is read and written by one thread only, read for the last time first: in place is right. A call has ended
 * on a rank only when all lines that the peer stores into its lane have arrived.
 */
#ifndef GPUCOLL_KERNELS_ALLREDUCE_SWAP_CUH
#define GPUCOLL_KERNELS_ALLREDUCE_SWAP_CUH

#include "kernels/line_stream.cuh"
#include "kernels/reduce_ops.cuh"

namespace gpucoll {

/* False if a wait was given up. */
template <typename Op> __device__ __forceinline__ bool allreduce_swap(const gpucoll_kernel_args &args, crew_share share)
{
    const line_message send(args.send, args.bytes);
    const line_message recv(args.recv, args.bytes);
    line_stream stream(args, 1 - args.rank, send, recv, lines_of_share(share));
    nothing beside;
    return run_stream(stream, taking_reduced<Op>(args, args.send, args.bytes, args.rank == 0), beside);
}

} // namespace gpucoll

#endif
