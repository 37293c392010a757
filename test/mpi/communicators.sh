#!/usr/bin/env bash
# What a communicator and the first call on it cost beyond Open MPI's own part, with each setting of coll_gpucoll_warmup: half of them at most
# 1 ms where each rank has a core, and something else one. All of them together may take 5 a piece, since something else may run as well; where ranks share
# cores with one another, and so wait for each other, half of them may take 5 and all 20.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"
median_most=1000 mean_most=5000
[ "$NP" -lt "$(nproc)" ] || median_most=5000
[ "$NP" -lt "$(nproc)" ] || mean_most=20000

# each NAME ARGUMENT...: what a communicator takes, in microseconds, in `mean` and `median`.
each() {
    local name=$1
    shift
    launch "$@"
    grep '^descriptors' "$output"
    read -r mean median < <(sed -n 's/^each communicator took \([0-9]*\).* at most \([0-9]*\).*/\1 \2/p' "$output") || true
    if [ "$status" -ne 0 ] || [ -z "$median" ] || says '^FAIL'; then
        fail "$name" "status $status"
        return 1
    fi
}

too_long() { [ $((mean - own_mean)) -gt "$mean_most" ] || [ $((median - own_median)) -gt "$median_most" ]; }

each communicators/without --mca coll ^gpucoll "$PROGRAMS/communicators" --loaded=no || exit 0
own_mean=$mean own_median=$median
pass communicators/without
for warmup in lazy comm; do
    for _ in 1 2 3; do
        each "communicators/$warmup" --mca coll_gpucoll_warmup "$warmup" "$PROGRAMS/communicators" --loaded=yes || continue 2
        # Something else may have taken the time.
        too_long || break
    done
    echo "a communicator and its first call (warmup=$warmup): $median us in the middle, $own_median of these are Open MPI's own; $mean and $own_mean us on average"
    if too_long; then
        fail "communicators/$warmup" "too long: $median_most us in the middle, $mean_most on average are allowed beyond Open MPI's own"
    else
        pass "communicators/$warmup"
    fi
done
exit 0
