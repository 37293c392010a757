#!/usr/bin/env bash
# What coll_gpucoll_warmup=init has connected is disconnected at the begin of MPI_Finalize, before the ranks meet there and free what
# the others had mapped, also if the program calls nothing in between.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"

launch --mca coll_gpucoll_warmup init --mca coll_gpucoll_verbose 1 "$PROGRAMS/init_only"
if [ "$status" -ne 0 ]; then
    fail init_only "status $status"
elif [ "$(grep -c 'warm-up in MPI_Init: connected' "$output")" -ne "$NP" ]; then
    if [ "$ACCELERATOR" = cuda ] && says 'a rank has no GPU yet'; then
        skip init_only "the ranks see several GPUs each: none is bound in MPI_Init"
    else
        fail init_only "the ranks were not connected in MPI_Init"
    fi
elif [ "$(grep -c "MPI_Finalize begins: connections to $NP processes are closed" "$output")" -ne "$NP" ] || says 'closed late'; then
    fail init_only "not every rank was told of MPI_Finalize"
else
    pass init_only
fi
exit 0
