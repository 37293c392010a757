#!/usr/bin/env bash
# What happens when things go wrong: dead ranks, late ranks, missing resources, ranks that are not alike. Nothing may hang,
# nothing may stay in /dev/shm, and the text must say what and where.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"
# Arguments: which cases (a regular expression), the transports to force, how many hosts the machine is to pretend to be, and how many ties two
# processes are to have.
only=${1:-.}
[ -z "${2:-}" ] || export OMPI_MCA_coll_gpucoll_transports=$2
[ -z "${3:-}" ] || export OMPI_MCA_coll_gpucoll_hosts=$3
[ -z "${4:-}" ] || export OMPI_MCA_coll_gpucoll_net_ties=$4
last=$((NP - 1))

# Files of the last run that no process has mapped. Open MPI 5.0 itself leaves one for each program that runs without mpirun.
left_behind() {
    local file
    {
        find "$SHM" -mindepth 1 -newer "$began" ! -name 'sm_segment.*0000.0'
        # Those of other jobs' Open MPI are not ours.
        find /dev/shm -mindepth 1 -maxdepth 1 -newer "$began" ! -name '*_segment.*' ! -name 'osc_*' ! -name 'run_mpi.*'
    } 2>/dev/null |
        while IFS= read -r file; do
            grep -qsF "$file" /proc/[0-9]*/maps || echo "$file"
        done
}

# clean NAME: no file of the last run is left.
clean() {
    local left attempt
    for attempt in {1..20}; do
        # mpirun may be gone a moment before its ranks and servers are, which clean up.
        sleep "$((attempt > 1)).2"
        left=$(left_behind)
        [ -n "$left" ] || break
    done
    case $left in '') pass "$1/dev_shm" ;; *) fail "$1/dev_shm" "left behind:$left" ;; esac
}

# dies NAME MODE: the job ends by itself, with an error.
dies() {
    [[ $1 =~ $only ]] || return 0
    launch --mca coll_gpucoll_timeout 20 "$PROGRAMS/faults" --mode="$2"
    if timed_out; then
        fail "$1" "the job did not end"
    elif [ "$status" -eq 0 ] && [ "$2" != exit ]; then
        fail "$1" "the job ended with status 0"
    elif ! says "REPORT rank $last goes wrong" || says 'wrong result'; then
        fail "$1" "it did not come so far"
    else
        pass "$1"
    fi
    clean "$1"
}

# works NAME TEXT ARGUMENT...: right results in spite of it, and the text (a regular expression; empty: any) is shown.
works() {
    local name=$1 text=$2
    [[ $name =~ $only ]] || return 0
    shift 2
    launch "$@"
    if [ "$(grep -c 'all is well' "$output")" -ne "$NP" ] || [ "$status" -ne 0 ]; then
        fail "$name" "not all ranks ended well (status $status)"
    elif [ -n "$text" ] && ! says "$text"; then
        fail "$name" "nothing was said that matches '$text'"
    elif says 'wrong result'; then
        fail "$name" "wrong results"
    else
        pass "$name"
    fi
    clean "$name"
}

dies abort abort
dies killed_rank kill
dies rank_ends_early exit

if [[ late =~ $only ]]; then
    launch --mca coll_gpucoll_timeout 3 "$PROGRAMS/faults" --mode=late
    if timed_out; then
        fail late "the job did not end"
    elif ! says "Missing ranks: *$last"; then
        fail late "the text does not name rank $last as missing"
    elif ! says 'REPORT rank 0: the call returned an error'; then
        fail late "rank 0 got no error"
    else
        pass late
    fi
    clean late
fi

# told NAME MODE SECONDS ARGUMENT...: the last rank is killed. Each of those that are left has an error within that time, and says of a process
# that has ended or a rank that gave up; someone names the rank. Their devices have no work left. It has a shell for a parent, which goes on for a while: or else mpirun would
# end the job before them.
# shellcheck disable=SC2016
under_shell='if [ "$OMPI_COMM_WORLD_RANK" != "$0" ]; then exec "$@"; fi; "$@"; sleep "${LINGER:-20}"; exit 1'
told() {
    local name=$1 mode=$2 seconds=$3
    shift 3
    launch --mca coll_gpucoll_timeout 300 --mca orte_base_help_aggregate 0 --mca opal_base_help_aggregate 0 "$@" \
        sh -c "$under_shell" "$last" "$PROGRAMS/faults" --mode="$mode"
    if timed_out || [ "$took" -gt "$seconds" ]; then
        fail "$name" "the job took $took seconds"
    elif [ "$(grep -c 'the call returned an error' "$output")" -ne "$last" ]; then
        fail "$name" "not all other ranks got an error"
    elif [ "$(grep -c 'its device has no work left' "$output")" -ne "$last" ]; then
        fail "$name" "not all other ranks' devices came to an end of their work"
    elif [ "$(grep -c "process of rank $last ended\|connection to rank $last failed\|gave a collective up" "$output")" -lt "$last" ]; then
        fail "$name" "not all other ranks say why"
    elif ! says "\(connection to\|process of\) rank $last\b"; then
        fail "$name" "the text does not name rank $last"
    else
        return 0
    fi
    return 1
}

# By a transport that is forced.
for mode in inside moving; do
    [[ ${mode}_killed =~ $only ]] || continue
    [ -n "${2:-}" ] || continue
    if told "${mode}_killed" "$mode" 60; then
        pass "${mode}_killed"
    fi
    clean "${mode}_killed"
done

# Between hosts: who is left hears of it long before the timeout, and says who is missing.
if [ -n "${3:-}" ] && [[ survivors_are_told =~ $only ]]; then
    if told survivors_are_told kill 60; then
        if says "Missing ranks: *$last\$"; then
            pass survivors_are_told
        else
            fail survivors_are_told "the text does not name rank $last as missing"
        fi
    fi
    clean survivors_are_told
fi

# With fault tolerance the error is that of MPI for it, though Open MPI does not know yet that the process has ended.
tolerant=
if [ "$("$MPIRUN" --version | sed -n 's/.*Open MPI[^0-9]*\([0-9]*\)\..*/\1/p' | head -n 1)" -ge 5 ] &&
    "$ompi_info" | grep -q 'FT MPI support: *yes'; then
    tolerant=yes
fi
if [ -n "$tolerant" ] && [[ process_failed =~ $only ]]; then
    # There mpirun waits for the shell.
    if LINGER=8 told process_failed kill 60 --with-ft ulfm; then
        if [ "$(grep -c 'an error: MPI_ERR_PROC_FAILED' "$output")" -eq "$last" ]; then
            pass process_failed
        else
            fail process_failed "not all other ranks got MPI_ERR_PROC_FAILED"
        fi
    fi
    clean process_failed
fi

# failed_first NAME ERROR: nor does the first call on a communicator wait for its team for ever. Open MPI itself finds out that the process has ended.
failed_first() {
    local name=$1 error=$2
    launch --mca coll_gpucoll_timeout 300 --with-ft ulfm "$PROGRAMS/faults" --mode="$name"
    if timed_out || [ "$took" -gt 60 ]; then
        fail "$name" "the job took $took seconds"
    elif [ "$(grep -c "the call returned an error: $error" "$output")" -lt "$last" ]; then
        fail "$name" "not all other ranks got $error"
    else
        pass "$name"
    fi
    clean "$name"
}
if [ -n "$tolerant" ]; then
    [[ ! first_killed =~ $only ]] || failed_first first_killed MPI_ERR_PROC_FAILED
    [[ ! first_revoked =~ $only ]] || failed_first first_revoked MPI_ERR_REVOKED
fi

# Of several ranks' messages Open MPI may show one only, and not all of them wait for the late rank itself.
works late_team "Missing ranks: *\($last\|[0-9]*, or one whose message that rank passes on\)" \
    --mca coll_gpucoll_timeout 2 "$PROGRAMS/faults" --mode=late_team
works late_freed "Missing ranks: *$last" --mca coll_gpucoll_timeout 2 "$PROGRAMS/faults" --mode=late_freed
works late_staged 'Collective: *iallreduce' --mca coll_gpucoll_timeout 2 --mca coll_gpucoll_nonblocking false \
    "$PROGRAMS/faults" --mode=late_staged

if [[ arguments_differ =~ $only ]]; then
    launch --mca coll_gpucoll_timeout 20 "$PROGRAMS/faults" --mode=differ
    if timed_out; then
        fail arguments_differ "the job did not end"
    elif ! says 'different arguments'; then
        fail arguments_differ "nothing was said of different arguments"
    elif [ "$(grep -c 'the call returned an error' "$output")" -ne "$NP" ]; then
        fail arguments_differ "not every rank got an error"
    elif [ "$took" -gt 15 ]; then
        fail arguments_differ "it took $took s"
    else
        pass arguments_differ
    fi
    clean arguments_differ
fi

works nothing_wrong '' "$PROGRAMS/faults"
works unknown_algorithm 'coll_gpucoll_allreduce_algorithm' --mca coll_gpucoll_allreduce_algorithm nonsense "$PROGRAMS/faults"
works unknown_bcast_algorithm 'Accepted: *auto|' --mca coll_gpucoll_bcast_algorithm nonsense "$PROGRAMS/faults"
works unknown_protocol 'Accepted: *auto|ll|' --mca coll_gpucoll_protocol nonsense "$PROGRAMS/faults"
works tuning_file_missing 'Where: *opening it' --mca coll_gpucoll_tuning_file /nowhere/at/all "$PROGRAMS/faults"
works number_out_of_range 'coll_gpucoll_lanes' --mca coll_gpucoll_lanes 1000 "$PROGRAMS/faults"
works not_a_number 'Value: *soon' --mca coll_gpucoll_timeout soon "$PROGRAMS/faults"
works unknown_unit 'Value: *2X' --mca coll_gpucoll_scratch_bytes 2X "$PROGRAMS/faults"
works unknown_transport 'names a transport that gpucoll does not have' --mca coll_gpucoll_transports pigeon "$PROGRAMS/faults"
works settings_differ 'different settings' \
    sh -c "$on_rank" sh "$last" OMPI_MCA_coll_gpucoll_max_ctas=3 "$PROGRAMS/faults"
works one_rank_without '' sh -c "$on_rank" sh "$last" OMPI_MCA_coll_gpucoll_accelerator=none "$PROGRAMS/faults"
works one_rank_disabled '' sh -c "$on_rank" sh "$last" OMPI_MCA_coll_gpucoll_enable=0 "$PROGRAMS/faults"

# The same component with another version's name in it, for one rank. Both names have the same length.
if [ -n "$COMPONENTS" ] && [[ versions_differ =~ $only ]]; then
    other=$LOGS/other_version
    mkdir -p "$other"
    LC_ALL=C sed 's/0\.1\.0/0.1.9/g' "$COMPONENTS/mca_coll_gpucoll.so" >"$other/mca_coll_gpucoll.so"
    chmod +x "$other/mca_coll_gpucoll.so"
    cp "$COMPONENTS/help-mpi-coll-gpucoll.txt" "$other/" 2>/dev/null
    if cmp -s "$COMPONENTS/mca_coll_gpucoll.so" "$other/mca_coll_gpucoll.so"; then
        skip versions_differ "the version is not 0.1.0: change this script"
    else
        works versions_differ 'different versions' sh -c "$on_rank" sh "$last" \
            "OMPI_MCA_mca_component_path=SYSTEM_DEFAULT:$other" "$PROGRAMS/faults"
    fi
    rm -rf "$other"
fi

# No room for shared memory in one rank: memory segments are files to the kernel, so that a limit on files holds for them.
# Open MPI itself must do without shared memory for this.
small="trap '' XFSZ; ulimit -f 4; "
works no_shared_memory 'could not create shared memory' --mca btl self,tcp -x PMIX_MCA_gds=hash \
    sh -c "if [ \"\$OMPI_COMM_WORLD_RANK\" = $last ]; then $small fi; exec \"\$0\"" "$PROGRAMS/faults"

if [ "$ACCELERATOR" = host ] && ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    works no_driver 'Reason: *\(no CUDA driver: libcuda\|gpucoll was built without it\)' --mca coll_gpucoll_accelerator cuda "$PROGRAMS/faults"
    works driver_not_needed '' --mca coll_gpucoll_accelerator auto "$PROGRAMS/faults"
fi
exit 0
