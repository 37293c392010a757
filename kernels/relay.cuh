/*
 * Relays: rings, chains and trees (kernels/relay_abi.h says who passes what to whom), each over any protocol: one entry for each functor.
 * Those that only move run by the entry of any functor: a step of theirs has a single operand.
 */
#ifndef GPUCOLL_KERNELS_RELAY_CUH
#define GPUCOLL_KERNELS_RELAY_CUH

#include "kernels/connection.cuh"

namespace gpucoll {

/* The packs of a step, of the channel's share of its block. */
__device__ __forceinline__ relay_piece piece_of(const relay_channel &channel, const gpucoll_kernel_run &run, uint32_t piece)
{
    uint64_t begin, end;
    gpucoll_channel_range(run.send_bytes, gridDim.x, blockIdx.x, &begin, &end);
    const uint64_t at = begin + static_cast<uint64_t>(piece) * channel.cut.piece_packs;
    const uint64_t left = at < end ? end - at : 0;
    return {message(run.send, run.send_bytes), message(run.recv, run.send_bytes), at,
            static_cast<uint32_t>(left < channel.cut.piece_packs ? left : channel.cut.piece_packs)};
}

/* False if a wait was given up, on some threads at least. */
template <typename Over, typename Op>
__device__ __forceinline__ bool relay_over(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
{
    relay_channel channel(args);
    gpucoll_relay_walk walk = gpucoll_relay_begin(args.relay_flow, args.rank, args.nranks, blockIdx.x, &channel.cut);
    gpucoll_relay_step step = {}; /* places of ends that a step does not have are looked up, too: they must be some rank's */
    while (gpucoll_relay_next(&walk, &step)) {
        const gpucoll_kernel_run &run = runs.run[step.block];
        step.writes = step.writes && (step.sources > 0 || run.send != run.recv);
        if (!Over::template carry<Op>(channel, step, piece_of(channel, run, step.piece))) {
            return false;
        }
    }
    return !channel.failed;
}

template <typename Op>
__device__ __forceinline__ void relay(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
{
    bool good;
    if (!pass_gate(args)) {
        return;
    }
    if (args.relay_protocol == GPUCOLL_RELAY_LL) {
        good = relay_over<over_ll, Op>(args, runs);
    } else if (args.relay_protocol == GPUCOLL_RELAY_LL128) {
        good = relay_over<over_ll128, Op>(args, runs);
    } else {
        good = relay_over<over_simple, Op>(args, runs);
    }
    finish(args, !good);
}

} // namespace gpucoll

#define GPUCOLL_RELAY_OF(name, op, element)                                                                  \
    extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS, 1) gpucoll_relay_##name(               \
        const __grid_constant__ gpucoll_kernel_args args, const __grid_constant__ gpucoll_kernel_runs runs)  \
    {                                                                                                        \
        gpucoll::relay<gpucoll::op_##op<gpucoll::element>>(args, runs);                                      \
    }

#endif
