# shellcheck shell=bash
# What the scripted tests share. test/run_mpi.sh runs them and sets MPIRUN, NP, PROGRAMS, COMPONENTS, ACCELERATOR and LOGS;
# they print lines `PASS name`, `FAIL name: detail`, `SKIP name: why`.

output=$LOGS/script.$$.out
trap 'rm -f "$output"' EXIT

pass() { echo "PASS $1"; }
skip() { echo "SKIP $1: $2"; }
fail() {
    echo "FAIL $1: $2"
    sed 's/^/    | /' "$output" | tail -n 25
}

# run COMMAND...: within 60 s, its output in $output, its status in $status.
run() {
    status=0
    timeout -k 5 60 "$@" >"$output" 2>&1 </dev/null || status=$?
}

# launch ARGUMENT...: mpirun with NP ranks. The driver's and the kernel's first loading may cost seconds: hence 60.
launch() {
    run "$MPIRUN" -n "$NP" "$@"
}

says() { grep -q -e "$1" "$output"; }
timed_out() { [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; }

# For mpirun: sets variables in the environment of one rank only. `on_rank R VAR=VALUE... COMMAND...`
on_rank='r=$1; shift; if [ "$OMPI_COMM_WORLD_RANK" = "$r" ]; then exec env "$@"; fi
while [ "${1#*=}" != "$1" ]; do shift; done; exec "$@"'
