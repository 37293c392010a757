#!/usr/bin/env bash
# docs/collectives.md says which collectives run natively, and over which transport: so they must, and where no transport is
# allowed none may.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"
table=$(dirname "$0")/../../docs/collectives.md
lines=$LOGS/script.$$.lines

if [ ! -f "$table" ]; then
    skip table "there is no docs/collectives.md beside these tests"
    exit 0
fi
cases=('as_said' 'rdma|--mca coll_gpucoll_hosts 2|--over=rdma'
    'rdma_deterministic|--mca coll_gpucoll_hosts 2 --mca coll_gpucoll_deterministic 1|--over=rdma' 'no_transport|--mca coll_gpucoll_transports none|--staged')
for transport in p2p shm cpu_reduce; do
    cases+=("$transport|--mca coll_gpucoll_transports $transport|--over=$transport")
done
for case in "${cases[@]}"; do
    IFS='|' read -r name arguments option <<<"$case"
    read -ra arguments <<<"$arguments"
    : >"$lines"
    launch ${arguments[@]+"${arguments[@]}"} -x GPUCOLL_TEST_RESULTS="$lines" "$PROGRAMS/cells" --table="$table" ${option:+"$option"}
    sed -nE "s#^(PASS|FAIL|SKIP) (.*)#\1 $name/\2#p" "$lines"
    ! timed_out || fail "$name" "not finished"
    [ "$status" -eq 0 ] || grep -q '^FAIL' "$lines" || fail "$name" "ended with status $status"
    [ -s "$lines" ] || fail "$name" "printed no result"
done
rm -f "$lines"
exit 0
