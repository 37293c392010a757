#!/usr/bin/env bash
# A call on host memory in a process that uses no GPU must cost at most 150 instructions more with gpucoll than without: counted
# by valgrind, as the difference between runs of many and of few calls.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"
calls=2000 allowed=150

if ! command -v valgrind >/dev/null; then
    skip passcost "valgrind is not installed"
    exit 0
fi
unset OMPI_MCA_coll_gpucoll_accelerator

# count SELECTION CALLS: instructions of a run.
count() {
    OMPI_MCA_coll=$1 run valgrind --tool=callgrind --callgrind-out-file=/dev/null "$PROGRAMS/passcost" "$2"
    [ "$status" -eq 0 ] && sed -n 's/.*Collected : *//p' "$output" | head -n 1
}

# each SELECTION: instructions of a call.
each() {
    local few many
    few=$(count "$1" 1) && many=$(count "$1" $((calls + 1))) || return 1
    [ -n "$few" ] && [ -n "$many" ] && echo $(((many - few) / calls))
}

# Open MPI's own threads make the counts differ a little from run to run: the least of up to five.
without='' with=''
for _ in 1 2 3 4 5; do
    if ! now_without=$(each ^gpucoll) || ! now_with=$(each ^sync); then
        fail passcost "valgrind or the program failed"
        exit 0
    fi
    [ "${without:-$now_without}" -lt "$now_without" ] || without=$now_without
    [ "${with:-$now_with}" -lt "$now_with" ] || with=$now_with
    [ $((with - without)) -gt "$allowed" ] || break
done
echo "instructions of a call: $without without gpucoll, $with with it"
if [ "$with" -eq "$without" ]; then
    fail passcost "as many with gpucoll as without it: is it loaded?"
elif [ $((with - without)) -le "$allowed" ]; then
    pass passcost
else
    fail passcost "$((with - without)) instructions more, $allowed are allowed"
fi
exit 0
