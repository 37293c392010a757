#!/usr/bin/env bash
# docs/collectives.md says which collectives run natively: so they must, on one host and on several, and where no transport is
# allowed none may.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"
table=$(dirname "$0")/../../docs/collectives.md

if [ ! -f "$table" ]; then
    skip table "there is no docs/collectives.md beside these tests"
    exit 0
fi
for case in 'as_said' 'hosts|--mca coll_gpucoll_hosts 2' 'no_transport|--mca coll_gpucoll_transports none|--staged'; do
    IFS='|' read -r name arguments option <<<"$case"
    read -ra arguments <<<"$arguments"
    launch ${arguments[@]+"${arguments[@]}"} "$PROGRAMS/cells" --table="$table" ${option:+"$option"}
    LC_ALL=C sed -nE "s#^[^[:alnum:]|]?(PASS|FAIL|SKIP) (.*)#\1 $name/\2#p" "$output"
    ! timed_out || fail "$name" "not finished"
    says '^DONE' || fail "$name" "ended with status $status"
done
exit 0
