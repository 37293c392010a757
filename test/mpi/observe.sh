#!/usr/bin/env bash
# What gpucoll tells of its calls when asked: the summary as a table and as JSON, ranges for a profiler, and why calls were
# staged.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"
folder=$(mktemp -d "$LOGS/observe.XXXXXX")
trap 'rm -rf "$folder" "$output" "$began"' EXIT
program=("$PROGRAMS/observed")

# expect NAME PATTERN...: the command went well and each pattern is somewhere in $output.
expect() {
    local name=$1 pattern missing=''
    shift
    for pattern in "$@"; do
        says "$pattern" || missing+=" '$pattern'"
    done
    if [ "$status" -ne 0 ]; then
        fail "$name" "status $status"
    elif [ -n "$missing" ]; then
        fail "$name" "not said:$missing"
    else
        pass "$name"
    fi
}

launch --mca coll_gpucoll_summary rank0 "${program[@]}"
expect summary 'rank 0 of [0-9]* on .*native, .*staged' 'allreduce  *blocking  *4K-8K  *10 .*%  *[a-z]*/[a-z0-9]*, [0-9]* CTAs' \
    'staged: no kernel for this operator' 'neighbor_allgather .*staged: not native in this form' \
    'reduce_local  *blocking  *4K-8K  *1 .*%  *local, 1 CTAs' 'reduce_local .*staged: no kernel for this operator'
tables=$(grep -c 'rank [0-9]* of [0-9]* on' "$output")
if [ "$tables" -eq 1 ]; then pass summary/rank0_alone; else fail summary/rank0_alone "$tables tables"; fi

launch --mca coll_gpucoll_summary all "${program[@]}"
tables=$(grep -c 'rank [0-9]* of [0-9]* on' "$output")
if [ "$tables" -eq "$NP" ]; then pass summary/all; else fail summary/all "$tables tables"; fi

launch "${program[@]}"
if [ "$status" -ne 0 ]; then
    fail summary/none "status $status"
elif says 'rank 0 of'; then
    fail summary/none 'a summary that nobody asked for'
else
    pass summary/none
fi

launch --mca coll_gpucoll_summary "$folder/summary.%r.json" "${program[@]}"
if ! command -v python3 >/dev/null; then
    skip summary/json 'there is no python3 to read it'
elif python3 - "$folder" "$NP" >"$output" 2>&1 <<'EOF'; then
import json, sys
folder, ranks = sys.argv[1], int(sys.argv[2])
for rank in range(ranks):
    summary = json.load(open(f"{folder}/summary.{rank}.json"))
    assert (summary["rank"], summary["ranks"]) == (rank, ranks), summary
    rows = [row for row in summary["calls"] if row["collective"] == "allreduce" and row["form"] == "blocking" and row["way"] == "native"]
    assert sum(row["calls"] for row in rows) == 10, rows
    assert all(row["bytes"] == 4096 * row["calls"] and row["running_us"] > 0 and row["plan"] for row in rows), rows
    staged = [row for row in summary["calls"] if row["way"] == "staged"]
    assert staged and all(row["why"] for row in staged), staged
EOF
    pass summary/json
else
    fail summary/json 'the files are not as they should be'
fi

launch --mca coll_gpucoll_summary "$folder/no/such/folder" "${program[@]}"
expect summary/bad_file 'could not write the file'

launch --mca coll_gpucoll_verbose 20 "${program[@]}"
expect verbose/why 'allreduce: staged through host memory: no kernel for this operator' \
    'neighbor_allgather: staged through host memory: not native' 'allreduce of 4096 bytes: ran natively by [a-z]*/' \
    'reduce_local of 4096 bytes: ran natively' 'reduce_local: staged through host memory: no kernel for this operator'

injected=$(find "$PROGRAMS" -name 'nvtx_counter.so' | head -n 1)
if [ -z "$injected" ]; then
    skip nvtx 'built without the headers of NVTX'
else
    NVTX_INJECTION64_PATH=$injected NVTX_COUNTER_FILE=$folder/nvtx
    export NVTX_INJECTION64_PATH NVTX_COUNTER_FILE
    launch "${program[@]}"
    unset NVTX_INJECTION64_PATH NVTX_COUNTER_FILE
    cat "$folder"/nvtx.* >>"$output" 2>/dev/null
    expect nvtx/ranges 'domain gpucoll' 'push allreduce 4096 B, payload 4096' 'push waiting for ranks' 'push [a-z]*/[a-z0-9]* [0-9]* CTAs'
    expect nvtx/staged 'push allreduce 4096 B, staged: no kernel'
    expect nvtx/local 'push reduce_local 4096 B, payload 4096' 'push reduce_local 4096 B, staged: no kernel'
    unbalanced=$(sed -n 's/^pushed \(.*\) popped \(.*\) started \(.*\) ended \(.*\)/\1 \2 \3 \4/p' "$folder"/nvtx.* |
        awk '$1 != $2 || $3 != $4 || $1 == 0 || $3 == 0')
    totals=$(cat "$folder"/nvtx.* | grep -c '^pushed ')
    if [ -n "$unbalanced" ] || [ "$totals" -lt "$NP" ]; then
        fail nvtx/closed "$totals totals; opened and closed: $unbalanced"
    else
        pass nvtx/closed
    fi
fi
exit 0
