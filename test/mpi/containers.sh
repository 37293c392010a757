#!/usr/bin/env bash
# Ranks of one host in namespaces of their own, as containers have them. In PID and IPC namespaces they cannot open each other's memory, so what
# passes between them goes by the network, which is said once. (Open MPI's own shared memory ends with a segmentation fault there: every rank is
# process 1.) In IPC namespaces alone they are of one host, and go by p2p. (On GPUs older drivers want one IPC namespace for that; 580 does not.)
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"

apart=(unshare --pid --ipc --fork --kill-child --mount-proc)
if ! "${apart[@]}" true 2>/dev/null; then
    skip containers "no namespaces can be made here"
    exit 0
fi
for coll in allreduce collectives nonblocking; do
    launch --mca btl tcp,self --mca coll_gpucoll_verbose 1 "${apart[@]}" "$PROGRAMS/$coll" --quick
    if [ "$status" -ne 0 ]; then
        fail "containers_$coll" "status $status"
    elif ! says "MPI_COMM_WORLD: native, $NP ranks on $NP hosts"; then
        fail "containers_$coll" "the ranks are not those of $NP hosts"
    elif [ "$(grep -c 'several PID namespaces' "$output")" -ne 1 ]; then
        fail "containers_$coll" "that the ranks are apart is not said once"
    else
        pass "containers_$coll"
    fi
done
for coll in allreduce collectives nonblocking; do
    name=containers_ipc_$coll
    launch --mca coll_gpucoll_verbose 1 unshare --ipc "$PROGRAMS/$coll" --quick
    if [ "$status" -ne 0 ]; then
        fail "$name" "status $status"
    elif ! says "MPI_COMM_WORLD: native, $NP ranks\$"; then
        fail "$name" "the ranks are not those of one host"
    elif [ "$(grep -c 'reaches process [0-9]* by p2p' "$output")" -lt $((NP * (NP - 1))) ] ||
        says 'reaches process [0-9]* by \(shm\|cpu_reduce\|rdma\)'; then
        fail "$name" "not every rank reaches every other by p2p"
    else
        pass "$name"
    fi
done
exit 0
