#!/usr/bin/env bash
# Runs the unit tests on all cores: as many processes at a time as there are, each with its share of the cases, then shows what each said,
# one after the other. Runs in `make check`, in the build folder; arguments and GTEST_ variables but GTEST_OUTPUT are for the program.
set -uo pipefail

program=$PWD/test/unit/unit_tests
# `make check` does not run this then, but it may be asked for by name.
[ -x "$program" ] || { echo "SKIP test/unit/shards.sh: built without GoogleTest"; exit 77; }
# More would disturb the cases that wait for something to happen in a while.
# shellcheck source=contrib/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../contrib/lib.sh"
# shellcheck disable=SC2119
at_a_time=$(cpus_here)
[ "$at_a_time" -le 8 ] || at_a_time=8
# So many that none is left to run alone for long.
shares=$((at_a_time * 8))

folder=$(mktemp -d) || exit 1
workers=()
trap 'rm -rf "$folder"' EXIT
trap 'kill "${workers[@]}" 2>/dev/null; wait; exit 1' TERM INT

# run_share SHARE ARGUMENT...: in the background, for a signal to end it at once.
run_share() {
    local share=$1 program_here
    shift
    GTEST_TOTAL_SHARDS=$shares GTEST_SHARD_INDEX=$share "$program" "$@" >>"$folder/$share/said" 2>&1 </dev/null &
    program_here=$!
    # shellcheck disable=SC2064
    trap "kill $program_here 2>/dev/null; exit 1" TERM
    wait "$program_here"
}

# The leak sanitizer looks for leaks when all cases have passed, from a thread that sometimes crashes, once in some hundred runs (github.com/google/sanitizers,
# issues 1322 and 1353). Then it has found nothing out, neither good nor bad.
has_crashed_tracer() {
    grep -q 'LeakSanitizer has encountered a fatal error' "$folder/$1/said" && ! grep -q '^\[  FAILED  \]' "$folder/$1/said"
}

# work ARGUMENT...: runs shares that nobody has begun, until there are none.
work() {
    local share status
    for ((share = 0; share < shares; share++)); do
        mkdir "$folder/$share" 2>/dev/null || continue
        status=0
        run_share "$share" "$@" || status=$?
        if [ "$status" -ne 0 ] && has_crashed_tracer "$share"; then
            echo "share $share of $shares: the leak sanitizer itself has crashed, so the share runs once more" >>"$folder/$share/said"
            status=0
            run_share "$share" "$@" || status=$?
        fi
        echo "$status" >"$folder/$share/status"
    done
}

for ((i = 0; i < at_a_time; i++)); do
    work "$@" &
    workers+=($!)
done
wait

failed=0
for ((i = 0; i < shares; i++)); do
    cat "$folder/$i/said"
    status=$(cat "$folder/$i/status" 2>/dev/null || echo unknown)
    [ "$status" = 0 ] || { echo "share $i of $shares ended with status $status"; failed=1; }
done
exit $failed
