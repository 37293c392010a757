#!/usr/bin/env bash
# Fails if a file includes something of a folder that does not stand below its own (docs/architecture.md). Runs in `make check`, on the
# sources alone. A rule is for a folder and those within it that have no rule of their own; what a folder has itself it may include.
set -euo pipefail
cd "${srcdir:-.}"
status=0

# Folder: folders it may include, with those within them that have no rule of their own, and single files.
rules='
kernels:
core/base:           kernels/functors.h
core/accel:          core/base kernels
core/topology:       core/accel core/base
ucx_tl:              core/topology core/accel core/base kernels/kernel_abi.h
core/plan:           core/accel core/base kernels
core/rail:           ucx_tl/net.h core/accel core/base
core:                core/plan core/topology ucx_tl core/accel core/base kernels core/cluster/cluster.h core/cluster/cluster_call.h
core/algorithms:     core core/plan core/base ucx_tl kernels
core/cluster:        core core/rail core/base
ompi:                ompi core/gpucoll.h core/layout.h core/queue.h core/stats_report.h core/trace.h core/plan/algorithm.h core/plan/forced.h core/accel/accel.h core/base
tools:               core core/cluster/cluster.h core/rail/rail.h core/plan core/topology core/accel core/base ucx_tl
bench:               tools/cuda_symbols.h
'
declare -A may
while IFS=: read -r folder allowed; do
    [ -z "$folder" ] || may[$folder]=$allowed
done <<<"$rules"

# The folder whose rule is for a file.
layer_of() {
    local folder=${1%/*}
    until [ -n "${may[$folder]+x}" ] || [[ $folder != */* ]]; do
        folder=${folder%/*}
    done
    echo "$folder"
}

declare -A layers # of what was included before
checked=0
while IFS=: read -r file line; do
    header=${line#*\"}
    header=${header%\"*}
    case $header in
        ../*)
            echo "check_layers.sh: $file includes $header: name it from the top folder" >&2
            status=1
            continue
            ;;
        kernels/* | core/* | ucx_tl/* | ompi/mca/coll/gpucoll/* | tools/* | bench/* | test/*) ;;
        *) continue ;;
    esac
    from=${layers[$file]:=$(layer_of "$file")}
    to=${layers[$header]:=$(layer_of "$header")}
    checked=$((checked + 1))
    [ "$from" != "$to" ] || continue
    case " ${may[$from]} " in
        *" $to "* | *" $header "*) ;;
        *)
            echo "check_layers.sh: $file includes $header, which $from may not" >&2
            status=1
            ;;
    esac
done < <(grep -rHoE '^ *# *include "[^"]+"' kernels core ucx_tl ompi tools bench --include='*.[ch]' --include='*.cu' --include='*.cuh' \
    --include='*.cc')

# That none is found could as well mean that none was looked at.
[ "$checked" -ge 300 ] || { echo "check_layers.sh: only $checked includes found" >&2; status=1; }
exit "$status"
