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
# Begins share $1; the other arguments are the program's.
begin() {
    local share=$1
    shift
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$share "$program" "$@" >"$folder/$share" 2>&1 </dev/null &
    running[share]=$!
}
# Shows what share $1 has said; its status.
end() {
    local status=0
    wait "${running[$1]}" || status=$?
    cat "$folder/$1"
    return "$status"
}
# The leak sanitizer looks for leaks when all cases have passed, from a thread that sometimes crashes, once in some hundred runs (github.com/google/sanitizers,
# issues 1322 and 1353). Then it has found nothing out, neither good nor bad.
has_crashed_tracer() {
    grep -q 'LeakSanitizer has encountered a fatal error' "$folder/$1" && ! grep -q '^\[  FAILED  \]' "$folder/$1"
}

for ((i = 0; i < shards; i++)); do
    begin "$i" "$@"
done

status=0
for ((i = 0; i < shards; i++)); do
    code=0
    end "$i" || code=$?
    if [ "$code" -ne 0 ] && has_crashed_tracer "$i"; then
        echo "share $i of $shards: the leak sanitizer itself has crashed, so the share runs once more"
        code=0
        begin "$i" "$@"
        end "$i" || code=$?
    fi
    [ "$code" -eq 0 ] || { echo "share $i of $shards ended with status $code"; status=1; }
done
exit $status
