#!/usr/bin/env bash
# The benchmarks on the host accelerator: they keep to their budget, their results are right, complete and in the form that
# bench/results_schema.json describes, and the tools that read results work on those that are committed.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"
bench=$(cd "$(dirname "$0")/../../bench" && pwd)
fresh=$LOGS/bench.json
built=$PROGRAMS/../../bench # of a build or an installation
budget=5

# expect NAME STATUS COMMAND...
expect() {
    local name=$1 wanted=$2
    shift 2
    run "$@"
    if [ "$status" -eq "$wanted" ]; then
        pass "$name"
    else
        fail "$name" "status $status instead of $wanted"
    fi
}

# holds NAME ELSE CONDITION...
holds() {
    local name=$1 otherwise=$2
    shift 2
    if "$@"; then
        pass "$name"
    else
        fail "$name" "$otherwise"
    fi
}

if ! command -v python3 >/dev/null; then
    skip bench "there is no python3"
    exit 0
fi
side_by_side=("$bench/side_by_side" --accelerator host --ranks "$NP" --mpirun "$MPIRUN" --programs "$built")

expect measure 0 "${side_by_side[@]}" --collectives all --max 4K --iterations 2 --stock --json "$fresh" \
    --variant "plan:phased=--mca coll_gpucoll_allreduce_algorithm phased"
expect complete 0 "$bench/check_results" --complete "$fresh"
expect in_time 0 "${side_by_side[@]}" --collectives all --max 64K --budget $budget
holds budget "$took s for a budget of $budget s" [ "$took" -le $((budget + 30)) ]
expect show 0 "$bench/side_by_side" --from "$fresh" --markdown
sed 's/"median_us": /"median_us": -/' "$fresh" >"$LOGS/bench.bad.json"
expect fault_is_found 1 "$bench/check_results" "$LOGS/bench.bad.json"
sed 's/"check": "ok"/"check": "WRONG"/' "$fresh" >"$LOGS/bench.bad.json"
expect wrong_is_told 1 "$bench/side_by_side" --from "$LOGS/bench.bad.json"
expect no_such_collective 2 "${side_by_side[@]}" --collectives allreduce,nothing
expect no_such_variant 2 "${side_by_side[@]}" --variant nothing
expect no_results 2 "$bench/side_by_side" --from "$LOGS/bench.none.json"

if [ ! -d "$bench/results" ]; then
    skip committed "an installation has no results"
    exit 0
fi
for file in "$bench"/results/collectives-*.json; do
    [ ! -f "$file" ] || expect "valid/$(basename "$file")" 0 "$bench/check_results" "$file"
done
expect readme 0 "$bench/readme_table" --check
expect pictures 0 "$bench/plot.py" --check
# Where several Pythons are, the system's has the package.
python=''
for candidate in python3 /usr/bin/python3; do
    if [ -z "$python" ] && "$candidate" -c 'import matplotlib' 2>/dev/null; then
        python=$candidate
    fi
done
if [ -z "$python" ]; then
    skip plot "there is no matplotlib"
    exit 0
fi
cp "$(ls "$bench"/results/collectives-*.json | tail -n 1)" "$LOGS/bench.plot.json"
expect plot 0 "$python" "$bench/plot.py" "$LOGS/bench.plot.json"
for kind in ratio time bandwidth; do
    holds "plot_$kind" "no picture" [ -s "$LOGS/bench.plot-$kind.png" ]
done
expect plot_is_of_results 0 "$bench/plot.py" --check "$LOGS/bench.plot.json"
echo >>"$LOGS/bench.plot.json"
expect plot_is_of_other_results 1 "$bench/plot.py" --check "$LOGS/bench.plot.json"
expect plot_of_nothing 2 "$python" "$bench/plot.py" "$LOGS/bench.none.json"
