#!/usr/bin/env bash
# A test that hangs says where: its own watchdog prints the stacks of each rank's threads, and test/run_mpi.sh those of the processes of a
# run that passes its time.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"
runner=$(cd "$(dirname "$0")/.." && pwd)/run_mpi.sh
last=$((NP - 1))
own=$LOGS/stacks
rm -rf "$own"
mkdir -p "$own/bin"

# thread_in RANK FUNCTION: the thread of that rank whose stack has the function.
thread_in() {
    sed -n "s/.*| rank $1 thread \([0-9]*\) .* P\{0,1\}$2 .*/\1/p" "$output" | head -n 1
}

launch "$PROGRAMS/faults" --mode=wait --timeout=15
first=$(thread_in "$last" MPI_Recv)
second=$(thread_in "$last" pause)
if timed_out; then
    fail stacks/watchdog "the job did not end"
elif ! says "FAIL start: rank $last made no progress in 15 s (--timeout): waiting for ever"; then
    fail stacks/watchdog "rank $last did not say that it hangs"
elif [ -z "$first" ] || [ -z "$second" ] || [ "$first" = "$second" ]; then
    fail stacks/watchdog "rank $last did not print that one thread is in MPI_Recv ('$first') and another in pause ('$second')"
elif [ -z "$(thread_in 0 MPI_Barrier)" ]; then
    fail stacks/watchdog "rank 0 was ended before it had printed that it is in MPI_Barrier"
else
    pass stacks/watchdog
fi

# limited NAME SECONDS: run_mpi.sh with a run that does not end by itself; its log in $output. True if it was ended as it should be.
limited() {
    echo "$1 | $NP | | faults --mode=wait | limit=$2" >"$own/tests.list"
    run bash "$runner" --list "$own/tests.list" --programs "$PROGRAMS" ${COMPONENTS:+--components "$COMPONENTS"} \
        --mpirun "$MPIRUN" --accelerator "$ACCELERATOR" --logs "$own/logs"
    if ! says "FAIL $1 np=$NP: not finished after $2 s" || [ "$took" -gt $(($2 + 60)) ]; then
        fail "stacks/$1" "run_mpi.sh took $took s and did not say that the run passed its time"
        return 1
    fi
    cp "$own/logs/$1.np$NP.log" "$output"
}

# Does the tool that run_mpi.sh takes read the stacks of another process here?
tool=$(command -v eu-stack || command -v gdb)
can_attach() {
    local status=0
    sleep 30 &
    sleep 0.5 # until it is what it is to be
    case $tool in
        */eu-stack) "$tool" -p $! ;;
        *) "$tool" -nx -batch -ex bt -p $! ;;
    esac 2>&1 </dev/null | grep -q nanosleep || status=1
    kill $!
    return "$status"
}
if [ -z "$tool" ]; then
    skip stacks/limit "neither eu-stack nor gdb is on PATH"
elif ! can_attach; then
    skip stacks/limit "$tool may not look into other processes here"
elif limited limit 10; then
    if [ "$(grep -c 'stacks of process [0-9]* (faults)' "$output")" -ne "$NP" ]; then
        fail stacks/limit "there are not the stacks of $NP ranks"
    elif ! says 'MPI_Recv' || ! says 'pause_for_ever' || ! says 'MPI_Barrier'; then
        fail stacks/limit "MPI_Recv, pause_for_ever and MPI_Barrier are not all among the stacks"
    else
        pass stacks/limit
    fi
fi

# Where there is no such tool, a line says so.
for directory in ${PATH//:/ }; do
    ln -s "$directory"/* "$own/bin/" 2>/dev/null
done
rm -f "$own/bin/eu-stack" "$own/bin/gdb"
if PATH=$own/bin limited no_tool 10; then
    if ! says 'neither eu-stack nor gdb is on PATH'; then
        fail stacks/no_tool "the log does not say that neither eu-stack nor gdb is on PATH"
    else
        pass stacks/no_tool
    fi
fi

# What a run leaves in shared memory is told, and taken away; files of another job are not.
# shellcheck disable=SC2016
printf '%s\n' 'touch "$SHM/vader_segment.left"' 'echo "$SHM" >"$LOGS/shm"' 'echo "PASS leave"' >"$own/leave.sh"
echo "leave | 1 | | leave.sh | script" >"$own/tests.list"
others=$(mktemp /dev/shm/vader_segment.others.XXXXXX)
run bash "$runner" --list "$own/tests.list" --programs "$PROGRAMS" --mpirun "$MPIRUN" --accelerator "$ACCELERATOR" --logs "$own/logs"
if ! says 'FAIL leave np=1: left in /dev/shm: vader_segment.left$'; then
    fail stacks/left "run_mpi.sh did not say what a run left"
elif [ -e "$(cat "$own/logs/shm")" ] || [ ! -e "$others" ]; then
    fail stacks/left "run_mpi.sh did not take away what was left, or took what was not its own"
else
    pass stacks/left
fi
rm -f "$others"

# An Open MPI that is killed while its ranks start can leave files of its own.
rm -f "$SHM"/*_segment.*
rm -rf "$own"
exit 0
