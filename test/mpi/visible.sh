#!/usr/bin/env bash
# GPUs that CUDA_VISIBLE_DEVICES shows differently to each rank, so that ordinals say nothing: ranks know GPUs by their UUIDs.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"

IFS=', ' read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
[ ${#gpus[@]} -gt 0 ] || mapfile -t gpus < <(nvidia-smi -L 2>/dev/null | sed -nE 's/^GPU ([0-9]+):.*/\1/p')

# For mpirun: each rank sees COUNT of the given GPUs, from the one on that has its number: `seeing COUNT GPU... -- COMMAND...`
# shellcheck disable=SC2016
seeing='most=$1; shift; all=(); while [ "$1" != -- ]; do all+=("$1"); shift; done; shift
for ((i = 0; i < most; i++)); do
    seen=${seen:+$seen,}${all[(OMPI_COMM_WORLD_LOCAL_RANK + i) % ${#all[@]}]}
done
echo "rank $OMPI_COMM_WORLD_RANK sees $seen"
CUDA_VISIBLE_DEVICES=$seen exec "$@"'

# visible NAME COUNT SHARED ARGUMENT...: results are right, MPI_COMM_WORLD's calls native, and the ranks know whether some of them share a GPU.
visible() {
    local name=$1 count=$2 shared=$3 told=no
    shift 3
    launch --mca coll_gpucoll_verbose 5 bash -c "$seeing" seeing "$count" "${gpus[@]}" -- "$PROGRAMS/allreduce" --quick \
        --only=sum/MPI_FLOAT "$@"
    ! says 'reaches process [0-9]* by .*(same GPU)' || told=yes
    if [ "$status" -ne 0 ] || says '^FAIL' || ! says '^DONE'; then
        fail "$name" "status $status"
    elif ! says 'MPI_COMM_WORLD: allreduce of .* with sum_f32: '; then
        fail "$name" "MPI_COMM_WORLD had no plan"
    elif [ "$told" != "$shared" ]; then
        fail "$name" "ranks on one GPU: $shared, but they were told: $told"
    else
        pass "$name"
    fi
}

distinct=${#gpus[@]} twice=${#gpus[@]}
[ $((twice % 2)) -ne 0 ] || twice=$((twice / 2))
# more_than NUMBER: are there more ranks?
more_than() { [ "$NP" -gt "$1" ] && echo yes || echo no; }
# GPU r is ordinal 0 of rank r.
visible visible_one 1 "$(more_than "$distinct")"
visible visible_rotated "$distinct" "$(more_than "$distinct")" --gpu-map=0
# Rank r takes ordinal r, which is GPU 2 r modulo their number: of two GPUs, both ranks the same one.
visible visible_rotated_twice "$distinct" "$(more_than "$twice")"
exit 0
