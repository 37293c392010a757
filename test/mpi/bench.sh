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

lacks() {
    [ -s "$2" ] && ! grep -q -e "$1" "$2"
}

if ! command -v python3 >/dev/null; then
    skip bench "there is no python3"
    exit 0
fi
side_by_side=("$bench/side_by_side" --accelerator host --ranks "$NP" --mpirun "$MPIRUN" --programs "$built")

expect measure 0 "${side_by_side[@]}" --collectives all --max 4K --iterations 2 --stock --json "$fresh" \
    --variant "deterministic=--mca coll_gpucoll_deterministic 1"
expect complete 0 "$bench/check_results" --complete "$fresh"
expect in_time 0 "${side_by_side[@]}" --collectives all --max 64K --budget $budget
holds budget "$took s for a budget of $budget s" [ "$took" -le $((budget + 30)) ]
# With pauses of half a second in the mean the run takes seconds, its calls do not.
paused=$LOGS/bench.paused.json
expect pause 0 "${side_by_side[@]}" --max 8 --iterations 3 --pause 1000000 --json "$paused"
holds pause_is_made "$took s" [ "$took" -ge 3 ]
holds pause_is_not_timed "a call of 8 B took a tenth of a second" python3 -c 'import json, sys
sys.exit(any(row["median_us"] > 1e5 for row in json.load(open(sys.argv[1]))["rows"]))' "$paused"
row=$LOGS/bench.row.json
expect row 0 "${side_by_side[@]}" --passes overlap --max 4K --iterations 3 --in-a-row 5 --json "$row"
holds row_is_told "its lines do not say how many calls were in a row" python3 -c 'import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
sys.exit(not rows or any(row["in_a_row"] != 5 for row in rows))' "$row"
expect show 0 "$bench/side_by_side" --from "$fresh" --markdown
spaced=$LOGS/bench.spaced.json
expect spaced 0 "${side_by_side[@]}" --type spaced --collectives allreduce,bcast,alltoallw,neighbor_alltoall --passes blocking,in-place,persistent \
    --max 64K --iterations 3 --json "$spaced"
expect spaced_as_described 0 "$bench/check_results" "$spaced"
holds spaced_but_what_reduces "other collectives than bcast, alltoallw and neighbor_alltoall" python3 -c 'import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
sys.exit({row["type"] for row in rows} != {"spaced"} or {row["collective"] for row in rows} != {"bcast", "alltoallw", "neighbor_alltoall"})' "$spaced"

# What "all" leaves out: with counts that differ, in all forms, and through the tools that read results, also where there is no NCCL.
more=$LOGS/bench.more.json
expect more 0 "${side_by_side[@]}" --collectives more --passes all --max 4K --iterations 2 --json "$more"
expect more_complete 0 "$bench/check_results" --more "$more"
expect more_is_not_all 1 "$bench/check_results" --more "$fresh"
# With times of microseconds, however busy the machine is.
sed -E 's/"memory": "host"/"memory": "cuda"/; s/"median_us": [0-9.]+/"median_us": 12.3/' "$more" >"$LOGS/bench.more.cuda.json"
printf '%s\n' '<!-- figures: begin, written by bench/readme_table -->' '<!-- figures: end -->' >"$LOGS/bench.more.md"
expect more_readme 0 "$bench/readme_table" --readme "$LOGS/bench.more.md" "$LOGS/bench.more.cuda.json"
for name in scan reduce_local alltoallw_uneven neighbor_alltoallw; do
    holds "more_readme_$name" "no line of it" grep -Eq "^\\| $name \\| [0-9.]+ µs" "$LOGS/bench.more.md"
done

sed 's/"median_us": /"median_us": -/' "$fresh" >"$LOGS/bench.bad.json"
expect fault_is_found 1 "$bench/check_results" "$LOGS/bench.bad.json"
sed 's/"check": "ok"/"check": "WRONG"/' "$fresh" >"$LOGS/bench.bad.json"
expect wrong_is_told 1 "$bench/side_by_side" --from "$LOGS/bench.bad.json"
expect no_such_collective 2 "${side_by_side[@]}" --collectives allreduce,nothing
expect no_such_variant 2 "${side_by_side[@]}" --variant nothing
expect no_results 2 "$bench/side_by_side" --from "$LOGS/bench.none.json"

# As if of GPUs: calls of two ranks and of four, a gpucoll that takes half of NCCL's time with four ranks and 0.4 or 0.6 of it with two; small
# ones, one of 4 MiB, and one of 64 MiB that has less bandwidth.
made='import json, sys
folder, device = sys.argv[1:]
def made(name, ranks, share, more=()):
    rows = []
    for size, us in ((8, 5.0), (64, 5.0), (4 << 20, 28.0), *more):
        for library, median in ("gpucoll", us), ("nccl", us / share):
            rows.append({"library": library, "collective": "allreduce", "form": "blocking", "buffers": "device", "memory": "cuda", "type": "float",
                         "op": "sum", "in_place": False, "bytes": size, "ranks": ranks, "iterations": 1, "median_us": median, "p99_us": median,
                         "min_us": median, "first_call_us": median, "algbw": size / median / 1e3, "busbw": size / median / 1e3, "check": "ok"})
    context = {"command": "bench_compare", "ranks": str(ranks), "memory": "cuda", "device": device, "date": "2026-11-29"}
    with open(f"{folder}/made.{name}.json", "w") as file:
        json.dump({"machine": {"links": ["GPU0 X NV18"]}, "runs": [context], "rows": rows}, file)
made("four", 4, 0.5)
made("better", 2, 0.4)
made("worse", 2, 0.6)
made("falls", 4, 0.5, [(64 << 20, 5000.0)])'
python3 -c "$made" "$LOGS" "NVIDIA H200"
printf '%s\n' 'allreduce 2 8 1G time/best/4 <= 1.00' 'allreduce 2 8 1G time/best <= 1.00' >"$LOGS/made.targets"
ranks=("$bench/side_by_side" --targets "$LOGS/made.targets")
expect ranks_better 0 "${ranks[@]}" --from "$LOGS/made.better.json" --against "$LOGS/made.four.json"
holds ranks_better_all "not all judged" says 'MET: all 6 targets'
expect ranks_worse 1 "${ranks[@]}" --from "$LOGS/made.worse.json" --against "$LOGS/made.four.json"
holds ranks_worse_told "no word of it" says 'MISSED: 3 of 6 .*time/best/4 <= 1 at 8 (1.20), 64 (1.20), 4M (1.20)'
expect ranks_together 1 "${ranks[@]}" --from "$LOGS/made.worse.json" "$LOGS/made.four.json"
expect ranks_alone 0 "${ranks[@]}" --from "$LOGS/made.worse.json"
holds ranks_alone_told "no word of it" says 'MET: all 3 targets.*; 3 more could not be judged'
sed 's/NVIDIA H200/NVIDIA H100/' "$LOGS/made.four.json" >"$LOGS/made.other.json"
expect ranks_of_others 0 "${ranks[@]}" --from "$LOGS/made.worse.json" --against "$LOGS/made.other.json"
holds ranks_of_others_told "no word of it" says 'left out: it is of NVIDIA H100, not of NVIDIA H200'
echo 'allreduce 2 8 1G time/best/four <= 1.00' >"$LOGS/made.targets"
expect no_such_figure 2 "${ranks[@]}" --from "$LOGS/made.worse.json"

# Predictions and bandwidth of the same.
predicted=("$bench/bench_plans" --programs "$built" --predicted 0.999)
expect predicted_held 0 "${predicted[@]}" --from "$LOGS/made.four.json" --json "$LOGS/made.plans.json"
holds predicted_plan "not what gpucoll_info chooses" grep -q '"oneshot/ll": {"predicted_us": [0-9.]*, "times_us": \[5.0\]' "$LOGS/made.plans.json"
expect predicted_off 1 "${predicted[@]}" --predicted 0 --from "$LOGS/made.four.json"
holds predicted_off_told "no word of it" says 'prediction is off by more than 0% at 3 sizes'
expect predicted_cliff 1 "${predicted[@]}" --from "$LOGS/made.falls.json"
holds predicted_cliff_told "no word of it" says 'bandwidth falls by more than 3% at 1 sizes (allreduce 64M)'
sed 's/NVIDIA H200/NVIDIA A100/' "$LOGS/made.four.json" >"$LOGS/made.unknown.json"
expect predicted_of_unknown 2 "${predicted[@]}" --from "$LOGS/made.unknown.json"
holds predicted_of_unknown_told "no word of it" says 'none are built in for NVIDIA A100'
expect predicted_of_host 2 "${predicted[@]}" --from "$fresh"
# What is predicted now of the calls of the committed results, which an installation does not have, by all forms.
for results in "$bench"/results/collectives-[24]xH200.json; do
    for form in blocking nonblocking persistent; do
        if [ -e "$results" ]; then
            expect "predicted_${form}_$(basename "$results" .json)" 0 "$bench/bench_plans" --programs "$built" --form "$form" --from "$results"
        fi
    done
done
expect predicted_of_no_such_form 2 "${predicted[@]}" --form persistent --from "$LOGS/made.four.json"

# Who stops it stops the job as well, whose ranks may be waiting for something that does not come.
printf '#!/bin/sh\necho $$ >"%s"\nexec sleep 60\n' "$LOGS/bench.pid" >"$LOGS/bench.launcher"
chmod +x "$LOGS/bench.launcher"
rm -f "$LOGS/bench.pid"
expect stopped 124 timeout 5 "$bench/side_by_side" --accelerator host --ranks 2 --mpirun "$LOGS/bench.launcher" --programs "$built"
# shellcheck disable=SC2016
holds stopped_job "the job goes on" sh -c '[ -s "$1" ] && ! kill -0 "$(cat "$1")" 2>/dev/null' - "$LOGS/bench.pid"

# What the application's own work pays: each thing timed at each moment.
bench_idle=$built/bench_idle
[ -x "$bench_idle" ] || bench_idle=$built/../bench_idle
idle=("$MPIRUN" -n "$NP" --mca coll gpucoll --mca coll_gpucoll_accelerator host "$bench_idle" --memory=host --iterations=3)
for bytes in 8 4096; do
    size=()
    [ "$bytes" -eq 8 ] || size=(--bytes="$bytes")
    expect "idle_$bytes" 0 "${idle[@]}" "${size[@]}" --json="$LOGS/bench.idle.json"
    holds "idle_complete_$bytes" "$LOGS/bench.idle.json lacks something" python3 -c '
import json, sys
results = json.load(open(sys.argv[1]))
rows = results["rows"]
whens = {(row["what"], row["when"]) for row in rows if row["iterations"] == 3}
sys.exit(len(rows) != 16 or len(whens) != 16 or results["context"]["bytes"] != sys.argv[2])' "$LOGS/bench.idle.json" "$bytes"
done
expect idle_no_whole_elements 2 "${idle[@]}" --bytes=6

# First calls, with each kind of warm-up; where they are GPUs' they are judged.
first_calls=("$bench/first_calls" --accelerator host --ranks "$NP" --mpirun "$MPIRUN" --programs "$built" --jobs 3)
expect first_calls 0 "${first_calls[@]}" --json "$LOGS/bench.first.json"
holds first_calls_complete "$LOGS/bench.first.json lacks something" python3 -c '
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
calls = {(row["warmup"], row["when"]): row["min_us"] for row in rows}
sys.exit(len(calls) != 21 or calls["lazy", "first"] < 10 * calls["init", "first"])' "$LOGS/bench.first.json"
expect no_such_warmup 2 "${first_calls[@]}" --warmups lazy,eager

# Google Benchmark's program: every collective, form and way of calling, some of them by its filter, and its JSON read as all other.
bench_mpi=$built/bench_mpi
[ -x "$bench_mpi" ] || bench_mpi=$built/../bench_mpi
if [ -x "$bench_mpi" ]; then
    google=("$MPIRUN" -n "$NP" --mca coll gpucoll --mca coll_gpucoll_accelerator host "$bench_mpi" --memory=host)
    expect google 0 "${google[@]}" --max=4K --iterations=2 --benchmark_out="$LOGS/google.json"
    for name in allreduce/float/sum/blocking/out_of_place/device/steady/4096 \
        reduce_scatter/float/sum/persistent/in_place/device/first/8 alltoall/float/sum/nonblocking/out_of_place/device/beside/64 \
        barrier/float/sum/nonblocking/out_of_place/device/steady/8; do
        holds "google_${name//\//_}" "not measured" grep -q "\"name\": \"$name/" "$LOGS/google.json"
    done
    holds google_correct "a wrong result" [ "$(grep -c '"correct": 1' "$LOGS/google.json")" -eq \
        "$(grep -c '"run_type": "iteration"' "$LOGS/google.json")" ]
    expect google_read 0 "$bench/side_by_side" --from "$LOGS/google.json"
    expect google_filter 0 "${google[@]}" --iterations=2 --type=double --op=max --benchmark_filter='^reduce/.*/blocking/in_place/.*/steady/512/' \
        --benchmark_out="$LOGS/google.json"
    holds google_filtered "not one" [ "$(grep -c '"run_type": "iteration"' "$LOGS/google.json")" -eq 1 ]
    expect google_more 0 "${google[@]}" --collectives=more --max=64 --iterations=2 --benchmark_filter=/steady/ \
        --benchmark_out="$LOGS/google.json"
    holds google_more_measured "not measured" grep -q '"name": "alltoallw_uneven/float/sum/persistent/in_place/device/steady/64/' \
        "$LOGS/google.json"
    holds google_more_correct "a wrong result" [ "$(grep -c '"correct": 1' "$LOGS/google.json")" -eq \
        "$(grep -c '"run_type": "iteration"' "$LOGS/google.json")" ]
    expect google_no_such_call 2 "${google[@]}" --calls=last
else
    skip google "built without Google Benchmark"
fi

# Every plan forced beside the choice.
bench_plans=("$bench/bench_plans" --accelerator host --ranks "$NP" --mpirun "$MPIRUN" --programs "$built" --max 4K --iterations 2)
expect plans_more 0 "${bench_plans[@]}" --collectives scan,gatherv --max 8 --json "$LOGS/plans_more.json"
holds plans_more_are_native "a forced plan is taken for a staged call" lacks '"staged"' "$LOGS/plans_more.json"
expect plans 0 "${bench_plans[@]}" --collectives allreduce,alltoall --json "$LOGS/plans.json"
for plan in oneshot/ll twoshot/ll128 phased/simple exchange/simple; do
    holds "plans_$plan" "not measured" grep -Eq "\"$plan\": \{[^}]*\"times_us\": \[[0-9]" "$LOGS/plans.json"
done
expect plans_again 0 "$bench/bench_plans" --from "$LOGS/plans.json"
# As if of GPUs: made to be wrong in each way.
sed 's/"memory": "host"/"memory": "cuda"/' "$LOGS/plans.json" >"$LOGS/plans.cuda.json"
expect plans_are_judged 1 "$bench/bench_plans" --from "$LOGS/plans.cuda.json" --predicted 0 --choice 1e9 --cliff 1
holds plans_predicted "no word of it" says 'MISSED.*prediction'
expect plans_choice 1 "$bench/bench_plans" --from "$LOGS/plans.cuda.json" --predicted 1e9 --choice=-1 --cliff 1
expect plans_cliff 1 "$bench/bench_plans" --from "$LOGS/plans.cuda.json" --predicted 1e9 --choice 1e9 --cliff=-1e9
expect plans_held 0 "$bench/bench_plans" --from "$LOGS/plans.cuda.json" --predicted 1e9 --choice 1e9 --cliff 1
sed 's/"wrong": \[\]/"wrong": ["exchange\/ll"]/' "$LOGS/plans.json" >"$LOGS/plans.bad.json"
expect plans_wrong 1 "$bench/bench_plans" --from "$LOGS/plans.bad.json"
expect plans_of_nothing 2 "$bench/bench_plans" --from "$LOGS/bench.none.json"

if [ ! -d "$bench/results" ]; then
    skip committed "an installation has no results"
    exit 0
fi
for file in "$bench"/results/{collectives,more}-*.json; do
    [ ! -f "$file" ] || expect "valid/$(basename "$file")" 0 "$bench/check_results" "$file"
done
expect readme 0 "$bench/readme_table" --check
expect pictures 0 "$bench/plot.py" --check
# The price of the deterministic mode is drawn as README's table has it.
priced='import argparse, glob, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from plot import groups_to_draw, points_of
priced = 0
for source in glob.glob(sys.argv[1] + "/results/collectives-*.json"):
    for group in groups_to_draw(source, argparse.Namespace(form="blocking", in_place=False))[1]:
        drawn = dict(points_of(group, "deterministic", "ratio"))
        reduces = "reduce" in group[0]["collective"] and any("deterministic" in line["times"] for line in group)
        assert bool(drawn) == reduces, group[0]["collective"]
        priced += len(drawn)
        for line in group:
            if line["bytes"] in drawn:
                times = line["times"]
                beside = times.get("alone", times["gpucoll"]) # as the deterministic run, without NCCL in its processes
                wanted = times["deterministic"]["median_us"] / beside["median_us"]
                assert abs(drawn[line["bytes"]] / wanted - 1) < 1e-6, (group[0]["collective"], line["bytes"])
assert priced > 0'
expect plot_priced 0 python3 -c "$priced" "$bench"
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
committed=("$bench"/results/collectives-*.json)
cp "${committed[0]}" "$LOGS/bench.plot.json"
expect plot 0 "$python" "$bench/plot.py" "$LOGS/bench.plot.json"
for kind in ratio time bandwidth; do
    holds "plot_$kind" "no picture" [ -s "$LOGS/bench.plot-$kind.png" ]
done
expect plot_alone 0 "$python" "$bench/plot.py" --collective allreduce "$LOGS/bench.plot.json"
holds plot_alone_named "no picture" [ -s "$LOGS/allreduce-bench.plot-ratio.png" ]
expect plot_alone_is_of_results 0 "$bench/plot.py" --check --collective allreduce "$LOGS/bench.plot.json"
expect plot_alone_of_nothing 2 "$bench/plot.py" --check --collective nothing "$LOGS/bench.plot.json"
expect plot_is_of_results 0 "$bench/plot.py" --check "$LOGS/bench.plot.json"
echo >>"$LOGS/bench.plot.json"
expect plot_is_of_other_results 1 "$bench/plot.py" --check "$LOGS/bench.plot.json"
expect plot_of_nothing 2 "$python" "$bench/plot.py" "$LOGS/bench.none.json"
