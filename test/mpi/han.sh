#!/usr/bin/env bash
# With coll/han of Open MPI 4.1 below: where each node has one process it hands its calls on by the communicator's slots, which are gpucoll's. The nodes
# are this machine, once for each rank: what should start a daemon on another one starts it here.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"

if ! "$ompi_info" --parsable 2>/dev/null | grep -q '^ompi:version:full:4\.'; then
    skip han "it hands calls on by itself from Open MPI 5.0 on"
    exit 0
elif ! "$ompi_info" --parsable | grep -q '^mca:coll:han:version'; then
    skip han "this Open MPI lacks it"
    exit 0
fi
# Daemons of one machine would share a folder for what they tell their processes, and now and then one would find the other's half made.
folder=$(mktemp -d)
agent=$folder/agent
# shellcheck disable=SC2016
printf '%s\n' '#!/bin/sh' "export TMPDIR=$folder/\$1" 'mkdir -p "$TMPDIR"' 'shift # the name of the node' 'exec sh -c "$*"' >"$agent"
chmod +x "$agent"
nodes=$(seq -s , -f 'node%g:1' "$NP")
# shellcheck disable=SC2054
nodes_of_one=(--mca plm_rsh_agent "$agent" --host "$nodes" --map-by ppr:1:node --mca btl self,tcp --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo --mca pml ob1)

# case_of NAME PROGRAM ARGUMENT...
case_of() {
    local name=$1
    shift
    launch "${nodes_of_one[@]}" --mca coll_han_priority 40 "$@"
    if [ "$status" -ne 0 ]; then
        fail "$name" "status $status"
    elif ! says '^DONE [1-9][0-9]* passed, 0 failed'; then
        fail "$name" "wrong results, or none"
    else
        pass "$name"
    fi
}
case_of han_barrier "$PROGRAMS/barriers" --quick
case_of han_reduce "$PROGRAMS/collectives" --quick --only=reduce
case_of han_gather "$PROGRAMS/collectives" --quick --only=gather
case_of han_host_memory "$PROGRAMS/collectives" --quick --only=bcast --memory=host
rm -rf "$folder"
exit 0
