#!/usr/bin/env bash
# Runs the unit tests on all cores: as many processes as there are, each with its share of the cases, then shows what each said, one after
# the other. Runs in `make check`, in the build folder; arguments and GTEST_ variables but GTEST_OUTPUT are for the program.
set -uo pipefail

program=$PWD/test/unit/unit_tests
# `make check` does not run this then, but it may be asked for by name.
[ -x "$program" ] || { echo "SKIP test/unit/shards.sh: built without GoogleTest"; exit 77; }
# More would disturb the cases that wait for something to happen in a while.
# shellcheck source=contrib/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../contrib/lib.sh"
# shellcheck disable=SC2119
shards=$(cpus_here)
[ "$shards" -le 8 ] || shards=8

folder=$(mktemp -d) || exit 1
running=()
trap 'rm -rf "$folder"' EXIT
trap 'kill "${running[@]}" 2>/dev/null; exit 1' TERM INT
for ((i = 0; i < shards; i++)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$program" "$@" >"$folder/$i" 2>&1 </dev/null &
    running[i]=$!
done

status=0
for ((i = 0; i < shards; i++)); do
    code=0
    wait "${running[i]}" || code=$?
    cat "$folder/$i"
    [ "$code" -eq 0 ] || { echo "share $i of $shards ended with status $code"; status=1; }
done
exit $status
