/*
 * Relays: rings, chains and trees (kernels/relay_abi.h says who passes what to whom), each over any protocol: one entry for each suite.
 * Those that only move run by the entry of any suite: a step of theirs has a single operand.
 */
#ifndef GPUCOLL_KERNELS_RELAY_CUH
#define GPUCOLL_KERNELS_RELAY_CUH

#include "kernels/connection_simple.cuh"

namespace gpucoll {

/* False if a wait was given up, on some threads at least. */
template <typename Over, typename Op>
__device__ __forceinline__ bool relay_over(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
{
    relay_channel channel(args);
    relay_steps steps(channel, runs);
    while (steps.next()) {
        const relay_piece piece = piece_of(channel, runs.run[steps.step.block], steps.step.piece);
        if (!Over::template carry<Op>(channel, steps.step, piece)) {
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
        good = relay_over_simple<Op>(args, runs);
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
