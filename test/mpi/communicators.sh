#!/usr/bin/env bash
# What a communicator and the first call on it cost beyond Open MPI's own part, with each setting of coll_gpucoll_warmup. The goal is 1 ms;
# 5 are allowed, and 20 where ranks share cores with one another and with whatever else is there, as in CI.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"
allowed_us=5000
[ "$NP" -lt "$(nproc)" ] || allowed_us=20000

# each NAME ARGUMENT...: what a communicator takes, in microseconds, in `took_us`.
each() {
    local name=$1
    shift
    launch "$@"
    grep '^descriptors' "$output"
    took_us=$(sed -n 's/^each communicator took \([0-9]*\).*/\1/p' "$output")
    if [ "$status" -ne 0 ] || [ -z "$took_us" ] || says '^FAIL'; then
        fail "$name" "status $status"
        return 1
    fi
}

each communicators/without --mca coll ^gpucoll "$PROGRAMS/communicators" --loaded=no || exit 0
own_us=$took_us
pass communicators/without
for warmup in lazy comm; do
    for _ in 1 2 3; do
        each "communicators/$warmup" --mca coll_gpucoll_warmup "$warmup" "$PROGRAMS/communicators" --loaded=yes || continue 2
        # Something else may have taken the time.
        [ $((took_us - own_us)) -gt "$allowed_us" ] || break
    done
    echo "a communicator and its first call: $took_us us, $own_us of these are Open MPI's own (warmup=$warmup)"
    if [ $((took_us - own_us)) -gt "$allowed_us" ]; then
        fail "communicators/$warmup" "$took_us us, $own_us of these are Open MPI's own; $allowed_us more are allowed"
    else
        pass "communicators/$warmup"
    fi
done
exit 0
