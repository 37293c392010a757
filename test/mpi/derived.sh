#!/usr/bin/env bash
# Blocking collectives on derived datatypes of device memory run natively: the component's summary must count no staged call.
# Without memory to pack, or with types that are too irregular, they are staged, and right.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"

# derived NAME WANTED ARGUMENT...: all cases pass, and WANTED (a regular expression) is in the summary of every rank.
derived() {
    local name=$1 wanted=$2
    shift 2
    launch --mca coll_gpucoll_verbose 1 "$@"
    if [ "$status" -ne 0 ] || says '^FAIL' || ! says '^DONE'; then
        fail "$name" "status $status"
    elif [ "$(grep -c "calls: $wanted" "$output")" -ne "$NP" ]; then
        fail "$name" "not every rank counted '$wanted'"
    else
        pass "$name"
    fi
}

derived derived_native '[1-9][0-9]* native ([0-9]* bytes), 0 declined, 0 staged' "$PROGRAMS/derived" --quick
derived derived_native_hosts '[1-9][0-9]* native ([0-9]* bytes), 0 declined, 0 staged' --mca coll_gpucoll_hosts 2 "$PROGRAMS/derived" --quick
derived derived_without_memory '.* [1-9][0-9]* staged' --mca coll_gpucoll_pack_bytes 0 "$PROGRAMS/derived" --quick
derived derived_little_memory '[1-9][0-9]* native' --mca coll_gpucoll_pack_bytes 64K "$PROGRAMS/derived" --quick
derived derived_vast_memory '[1-9][0-9]* native ([0-9]* bytes), 0 declined' --mca coll_gpucoll_pack_bytes 1T "$PROGRAMS/derived" --quick
derived derived_hosts_without_memory '.* [1-9][0-9]* staged' --mca coll_gpucoll_hosts 2 --mca coll_gpucoll_pack_bytes 0 "$PROGRAMS/derived" --quick
derived derived_irregular '0 native.* 1 staged' "$PROGRAMS/derived" --irregular
exit 0
