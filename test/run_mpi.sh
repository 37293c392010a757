#!/usr/bin/env bash
# Runs the MPI tests of a table (test/mpi/tests.list) under mpirun and counts their results.
#
#   run_mpi.sh --programs DIR --components DIR [options]
#     --list FILE        the table                                (tests.list beside the programs, or test/mpi/tests.list)
#     --programs DIR     where the test programs are
#     --components DIR   where mca_coll_gpucoll.so is             (default: wherever Open MPI looks by itself)
#     --mpirun PATH      (default: mpirun)
#     --accelerator X    host: rows for the host accelerator run; cuda: rows for GPUs run      (default: host)
#     --ranks "1 2 4"    only these numbers of ranks; a row with none of them runs with its first  (default: the row's);
#                        most: only the last of each row
#     --filter REGEX     only rows whose name matches
#     --exclude REGEX    no rows whose name matches
#     --without FLAG     no rows with this flag
#     --transports LIST  rows that leave the way to gpucoll, once by each of these alone; as NAME_by_TRANSPORT in the results
#     --logs DIR         one file a run                           (default: ./logs)
#     --timeout S        of one run                               (default: 300)
#
# A row:    name | ranks | mpirun arguments | program and its arguments | flags
#   ranks   numbers, such as `1 2 3 4 7`
#   flags   host (needs the host accelerator), gpu (needs GPUs), gpus=N (needs N), ompi5 (needs Open MPI 5.0 or newer), fortran (needs the program
#           that is built only where Open MPI has a Fortran compiler), engine (tests what is the
#           same with every Open MPI, as it lies below the MPI layer or beside it: contrib/check runs it with one of them),
#           p2p (asks for what p2p does; not for --transports), limit=S (seconds, instead of --timeout), script (the program is a
#           shell script beside the table, which calls mpirun itself; it finds MPIRUN, NP, PROGRAMS, COMPONENTS, ACCELERATOR, LOGS,
#           SHM in its environment)
# A row with neither host nor gpu runs with either. The run has `coll_gpucoll_accelerator=host` set in host mode.
#
# A program has a line for each case: `PASS name`, `FAIL name: detail` or `SKIP name: why`. It prints it, and writes it into the file
# that GPUCOLL_TEST_RESULTS names: in what mpirun prints, lines run into those of libraries. A script prints it. A run that ends with an error,
# passes its time, prints no result or leaves a file in shared memory is a failed case of its own. Open MPI's files there are in a folder of this
# script's own (SHM for scripts), which is emptied behind each run: so they are known from those of other jobs. Before a run that passes its time is
# killed, the stacks of all threads of its processes are written into its log.
# The last line is `N passed, N failed, N skipped`; the exit status is 0 if none failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
list='' programs='' components='' mpirun=mpirun accelerator=host only_ranks='' filter=. exclude='^$' without='' logs=logs limit=300 transports=''

die() {
    echo "run_mpi.sh: $*" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || die "$1 needs a value"
    case $1 in
        --list) list=$2 ;;
        --programs) programs=$2 ;;
        --components) components=$2 ;;
        --mpirun) mpirun=$2 ;;
        --accelerator) accelerator=$2 ;;
        --ranks) only_ranks=$2 ;;
        --filter) filter=$2 ;;
        --exclude) exclude=$2 ;;
        --without) without=$2 ;;
        --transports) transports=$2 ;;
        --logs) logs=$2 ;;
        --timeout) limit=$2 ;;
        *) die "unknown option $1; the head of this file lists them" ;;
    esac
    shift 2
done
[ -d "$programs" ] || die "--programs '$programs' is not a directory"
programs=$(cd "$programs" && pwd)
for candidate in "$programs/tests.list" "$here/mpi/tests.list"; do
    [ -n "$list" ] || { [ -f "$candidate" ] && list=$candidate; } || true
done
[ -f "$list" ] || die "the table of tests '$list' was not found"
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)
results=$logs/results
: >"$results"

# The machine may be small, a container, or root's: let ranks share cores, unbound, and be quiet about it.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_btl_base_warn_component_unused=0
# A munge daemon that has ended leaves its socket, for which each mpirun would wait 2 s.
export PMIX_MCA_psec=^munge
if [ -n "$components" ]; then
    [ -d "$components" ] || die "--components '$components' is not a directory"
    components=$(cd "$components" && pwd)
    export OMPI_MCA_mca_component_path=SYSTEM_DEFAULT:$components
fi
case $accelerator in
    host) export OMPI_MCA_coll_gpucoll_accelerator=host ;;
    cuda) ;;
    *) die "--accelerator is host or cuda" ;;
esac
ompi_major=$("$mpirun" --version | sed -n 's/.*Open MPI[^0-9]*\([0-9]*\)\..*/\1/p' | head -n 1)
[ -n "$ompi_major" ] || die "$mpirun is not Open MPI's: name that by --mpirun (Debian calls it mpirun.openmpi)"
# Open MPI 5.0 hands its component path on to PMIx, which complains of what it finds there.
[ "$ompi_major" -lt 5 ] || export PMIX_MCA_mca_component_path=
btl=vader
[ "$ompi_major" -lt 5 ] || btl=sm
shm=$(mktemp -d /dev/shm/run_mpi.XXXXXX 2>/dev/null) || shm=$(mktemp -d)
trap 'rm -rf "$shm"' EXIT
export "OMPI_MCA_btl_${btl}_backing_directory=$shm" OMPI_MCA_osc_sm_backing_directory="$shm" OMPI_MCA_osc_rdma_backing_directory="$shm"
gpus=0
if [ "$accelerator" = cuda ]; then
    gpus=$("$here/gpu_count")
    [ "$gpus" -gt 0 ] || die "--accelerator cuda, but nvidia-smi lists no GPU, or CUDA_VISIBLE_DEVICES names none"
fi

trim() {
    local text=$1
    text=${text#"${text%%[![:space:]]*}"}
    printf '%s' "${text%"${text##*[![:space:]]}"}"
}

# Why a row with these flags cannot run here; empty if it can.
why_not() {
    local flag why=''
    for flag in $1; do
        case $flag in
            host) [ "$accelerator" = host ] || why=${why:-is for the host accelerator} ;;
            gpu) [ "$gpus" -ge 1 ] || why=${why:-needs a GPU} ;;
            gpus=*) [ "$gpus" -ge "${flag#gpus=}" ] || why=${why:-needs ${flag#gpus=} GPUs} ;;
            ompi5) [ "$ompi_major" -ge 5 ] || why=${why:-needs Open MPI 5.0} ;;
            fortran) [ -x "$programs/fortran" ] || why=${why:-was not built: configure found no Fortran compiler of Open MPI} ;;
            script | p2p | engine | limit=*) ;;
            *) die "unknown flag '$flag' in $list" ;;
        esac
    done
    printf '%s' "$why"
}

# The files in /dev/shm that Open MPI does not lay there, which are in $shm or of another job.
others_in_shm() {
    find /dev/shm -mindepth 1 -maxdepth 1 ! -name 'vader_segment.*' ! -name 'sm_segment.*' ! -name 'osc_*' ! -name 'run_mpi.*' 2>/dev/null |
        LC_ALL=C sort
}

# What a run left behind: files in $shm, and files in /dev/shm that are new since $1 was listed, which no process has mapped. Open MPI 5.0
# itself leaves a file for each program that was started without mpirun (its job's number ends in 0000), gpucoll or not.
left_behind() {
    local file
    {
        find "$shm" -mindepth 1 ! -name 'sm_segment.*0000.0'
        LC_ALL=C comm -13 "$1" <(others_in_shm)
    } |
        while IFS= read -r file; do
            grep -qsF "$file" /proc/[0-9]*/maps || echo "${file##*/}"
        done
}

# The descendants of process $1, each behind its parent.
descendants() {
    { cat /proc/[0-9]*/status 2>/dev/null || true; } | awk -v root="$1" '
        function list(parent, count, child, i) {
            count = split(children[parent], child)
            for (i = 1; i <= count; i++) {
                print child[i]
                list(child[i])
            }
        }
        $1 == "Pid:" { pid = $2 }
        $1 == "PPid:" { children[$2] = children[$2] " " pid }
        END { list(root) }'
}

# The stacks of all threads of these processes, but for shells and their like. Takes 5 s for a process and a minute for all at most.
stacks_of() {
    local pid name until=$((SECONDS + 60))
    local -a tool
    if command -v eu-stack >/dev/null; then
        tool=(eu-stack -m -p)
    elif command -v gdb >/dev/null; then
        tool=(gdb -nx -batch -ex 'thread apply all bt' -p)
    else
        echo "run_mpi.sh: no stacks of what hangs: neither eu-stack nor gdb is on PATH; install elfutils or gdb"
        return
    fi
    for pid; do
        name=$(cat "/proc/$pid/comm" 2>/dev/null) || continue # it has ended
        case $name in bash | sh | env | timeout | sleep) continue ;; esac
        if [ "$SECONDS" -ge "$until" ]; then
            echo "run_mpi.sh: no stacks of process $pid ($name): those before it took a minute"
            continue
        fi
        echo "run_mpi.sh: stacks of process $pid ($name), by ${tool[0]}:"
        DEBUGINFOD_URLS='' timeout -k 1 5 "${tool[@]}" "$pid" </dev/null 2>&1 ||
            echo "run_mpi.sh: ${tool[0]} ended with status $? (124: it took more than 5 s)"
    done
}

# within SECONDS LOG COMMAND...: with its output in the log; its status, or 124 if it was killed because it took longer.
within() {
    local seconds=$1 log=$2 finished result
    local -a processes
    shift 2
    # The limit of `timeout` itself is for the case that this shell ends before it.
    exec {finished}< <(
        status=0
        timeout -k 10 $((seconds + 90)) "$@" >>"$log" 2>&1 </dev/null || status=$?
        echo "$status"
    )
    running=$!
    if ! read -r -t "$seconds" -u "$finished" result; then
        mapfile -t processes < <(descendants "$running")
        stacks_of ${processes[@]+"${processes[@]}"} >>"$log"
        kill_running
        read -r -u "$finished" result || true
        result=124
    fi
    running=''
    exec {finished}<&-
    return "$result"
}

# The first descendant is `timeout`, which hands the signal on and sends SIGKILL 10 s later.
running=''
kill_running() {
    local -a processes
    [ -n "$running" ] || return 0
    mapfile -t processes < <(descendants "$running")
    [ ${#processes[@]} -eq 0 ] || kill "${processes[0]}" 2>/dev/null || true
}
trap 'kill_running; exit 130' INT TERM

# run NAME RANKS MPIRUN-ARGUMENTS COMMAND FLAGS
run() {
    local label="$1 np=$2" log=$logs/$1.np$2.log before=$logs/shm.before started=$SECONDS status=0 seconds=$limit
    local left failed flag printed=$logs/printed
    local -a command arguments line
    for flag in $5; do
        case $flag in limit=*) seconds=${flag#limit=} ;; esac
    done
    others_in_shm >"$before"
    read -ra arguments <<<"$3"
    read -ra command <<<"$4"
    : >"$printed"
    if [[ " $5 " == *" script "* ]]; then
        printed=$log
        command[0]=$(dirname "$list")/${command[0]}
        line=(env MPIRUN="$mpirun" NP="$2" PROGRAMS="$programs" COMPONENTS="$components" ACCELERATOR="$accelerator"
            LOGS="$logs" SHM="$shm" bash "${command[@]}")
    else
        command[0]=$programs/${command[0]}
        line=(env GPUCOLL_TEST_RESULTS="$printed" "$mpirun" -n "$2" ${arguments[@]+"${arguments[@]}"} "${command[@]}")
    fi
    echo "+ ${line[*]}" >"$log"
    within "$seconds" "$log" "${line[@]}" || status=$?

    LC_ALL=C sed -nE "s#^(PASS|FAIL|SKIP) (.*)#\1 $label \2#p" "$printed" >"$logs/cases"
    case $status in
        0) ;;
        124 | 137) echo "FAIL $label: not finished after $seconds s" >>"$logs/cases" ;;
        *) grep -q '^FAIL' "$logs/cases" || echo "FAIL $label: ended with status $status" >>"$logs/cases" ;;
    esac
    [ -s "$logs/cases" ] || echo "FAIL $label: printed no result" >>"$logs/cases"
    left=$(left_behind "$before")
    # What ended a moment ago may be about to clean up.
    for _ in {1..10}; do
        [ -n "$left" ] || break
        sleep 1
        left=$(left_behind "$before")
    done
    [ -z "$left" ] || echo "FAIL $label: left in /dev/shm: ${left//$'\n'/ }" >>"$logs/cases"
    find "$shm" -mindepth 1 -delete 2>/dev/null || true

    cat "$logs/cases" >>"$results"
    failed=$(grep -c '^FAIL' "$logs/cases" || true)
    printf '%s  %s: %d cases, %d failed, %d s\n' "$([ "$failed" -eq 0 ] && echo PASS || echo FAIL)" "$label" \
        "$(wc -l <"$logs/cases")" "$failed" $((SECONDS - started))
    if [ "$failed" -ne 0 ]; then
        grep '^FAIL' "$logs/cases" | head -n 10 | sed 's/^/      /'
        echo "      the end of $log:"
        tail -n 15 "$log" | sed 's/^/      | /'
    fi
}

# Do these arguments of mpirun leave it to gpucoll how data goes, in a program that does not mind?
is_open() {
    [[ ! $1 =~ coll_gpucoll_(transports|hosts|protocol|[a-z_]*algorithm|enable)|' coll ' && ! " $2 " =~ ' '(script|p2p)' ' ]]
}

while IFS='|' read -r name ranks arguments command flags; do
    name=$(trim "$name") ranks=$(trim "$ranks")
    case $name in '' | '#'*) continue ;; esac
    [[ $name =~ $filter && ! $name =~ $exclude ]] || continue
    flags=$(trim "$flags")
    [[ -z $without || " $flags " != *" $without "* ]] || continue
    [ -z "$transports" ] || is_open "$arguments" "$flags" || continue
    reason=$(why_not "$flags")
    if [ -n "$reason" ]; then
        echo "SKIP $name: $reason" | tee -a "$results"
        continue
    fi
    chosen=''
    for n in $ranks; do
        [[ -n $only_ranks && " $only_ranks " != *" $n "* ]] || chosen+=" $n"
    done
    [ -n "$chosen" ] || chosen=${ranks%%[[:space:]]*}
    [ "$only_ranks" != most ] || chosen=${ranks##*[[:space:]]}
    for n in $chosen; do
        if [ -z "$transports" ]; then
            run "$name" "$n" "$arguments" "$command" "$flags"
        fi
        for transport in $transports; do
            run "${name}_by_$transport" "$n" "$arguments --mca coll_gpucoll_transports $transport" "$command" "$flags"
        done
    done
done <"$list"

[ -s "$results" ] || die "no row of $list is to run: are --filter, --exclude and --without right?"
rm -f "$logs/cases" "$logs/printed" "$logs/shm.before"
count() { grep -c "^$1" "$results" || true; }
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
[ "$(count FAIL)" -eq 0 ]
