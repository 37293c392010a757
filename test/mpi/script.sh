# shellcheck shell=bash disable=SC2034
# What the scripted tests share. test/run_mpi.sh runs them and sets MPIRUN, NP, PROGRAMS, COMPONENTS, ACCELERATOR, LOGS and SHM;
# they print lines `PASS name`, `FAIL name: detail`, `SKIP name: why`.

output=$LOGS/script.$$.out
began=$LOGS/script.$$.began
# The driver's and the kernel's first loading may cost seconds, and so may other programs on the machine.
patience=120

ompi_info=$(dirname "$(command -v "$MPIRUN")")/ompi_info

trap 'rm -f "$output" "$began"' EXIT

pass() { echo "PASS $1"; }
skip() { echo "SKIP $1: $2"; }
fail() {
    echo "FAIL $1: $2"
    sed 's/^/    | /' "$output" | tail -n 25
}

# run COMMAND...: within $patience seconds, its output in $output, its status in $status. Sets `began`, a file older than what the
# command made.
run() {
    local before=$SECONDS
    status=0
    touch "$began"
    timeout -k 5 "$patience" "$@" >"$output" 2>&1 </dev/null || status=$?
    took=$((SECONDS - before))
}

# launch ARGUMENT...: mpirun with NP ranks.
launch() {
    run "$MPIRUN" -n "$NP" "$@"
}

says() { grep -q -e "$1" "$output"; }
timed_out() { [ "$took" -ge "$patience" ]; } # mpirun has statuses such as 137 of its own

# For mpirun: sets variables in the environment of one rank only. `on_rank R VAR=VALUE... COMMAND...`
# shellcheck disable=SC2016
on_rank='r=$1; shift; if [ "$OMPI_COMM_WORLD_RANK" = "$r" ]; then exec env "$@"; fi
while [ "${1#*=}" != "$1" ]; do shift; done; exec "$@"'
