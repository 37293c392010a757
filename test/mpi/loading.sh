#!/usr/bin/env bash
# Every way in which Open MPI is told of gpucoll, beyond the rows of tests.list: without mpirun, by ompi_info.
set -u
# shellcheck source=test/mpi/script.sh
. "$(dirname "$0")/script.sh"

# good NAME COMMAND...: it prints cases and none of them failed.
good() {
    local name=$1
    shift
    run "$@"
    if [ "$status" -ne 0 ] || says '^FAIL' || ! says '^PASS'; then
        fail "$name" "status $status"
    else
        pass "$name"
    fi
}

good singleton "$PROGRAMS/collectives" --quick --only=all --loaded=yes
OMPI_MCA_coll=gpucoll good singleton_gpucoll "$PROGRAMS/collectives" --quick --only=all --loaded=yes
OMPI_MCA_coll=^gpucoll good singleton_without "$PROGRAMS/collectives" --quick --only=all --loaded=no --memory=host

if [ -x "$ompi_info" ]; then
    for selection in '' gpucoll '^tuned'; do
        OMPI_MCA_coll=$selection
        if [ -n "$selection" ]; then export OMPI_MCA_coll; else unset OMPI_MCA_coll; fi
        run "$ompi_info" -a
        missing=''
        for parameter in priority verbose accelerator timeout lanes allreduce_algorithm; do
            says "coll_gpucoll_$parameter" || missing+=" $parameter"
        done
        name=ompi_info${selection:+/$selection}
        if [ "$status" -ne 0 ]; then
            fail "$name" "status $status"
        elif [ -n "$missing" ]; then
            : >"$output"
            fail "$name" "parameters are not shown:$missing"
        else
            pass "$name"
        fi
    done
    unset OMPI_MCA_coll
else
    skip ompi_info "it is not installed beside mpirun"
fi

# An installation that was moved has its texts where it is, whatever folder was compiled in.
moved=$LOGS/moved.$$
mkdir -p "$moved/lib/openmpi" "$moved/share/gpucoll"
cp "$COMPONENTS"/mca_coll_gpucoll.so "$moved/lib/openmpi/"
for folder in "$COMPONENTS" "$COMPONENTS"/../../share/gpucoll "$COMPONENTS"/../../../share/gpucoll; do
    [ ! -f "$folder/help-mpi-coll-gpucoll.txt" ] ||
        sed '/^\[bad-parameter\]/a These are the texts that were moved.' "$folder/help-mpi-coll-gpucoll.txt" \
            >"$moved/share/gpucoll/help-mpi-coll-gpucoll.txt"
done
OMPI_MCA_mca_component_path=SYSTEM_DEFAULT:$moved/lib/openmpi \
    launch --mca coll_gpucoll_lanes 0 "$PROGRAMS/allreduce" --quick --only=allreduce/sum/MPI_FLOAT --loaded=yes
if [ "$status" -eq 0 ] && says 'These are the texts that were moved'; then
    pass moved
else
    fail moved "the texts of the moved installation were not shown (status $status)"
fi
rm -rf "$moved"

# A number that is none, wherever it stands, is said, and the default counts.
for place in command_line environment file; do
    arguments=()
    case $place in
        command_line) arguments=(--mca coll_gpucoll_timeout abc) ;;
        environment) export OMPI_MCA_coll_gpucoll_timeout=abc ;;
        file)
            echo 'coll_gpucoll_timeout = abc' >"$LOGS/parameters.$$"
            export OMPI_MCA_mca_base_param_files=$LOGS/parameters.$$
            ;;
    esac
    launch "${arguments[@]}" "$PROGRAMS/allreduce" --quick --only=allreduce/sum/MPI_FLOAT --loaded=yes
    unset OMPI_MCA_coll_gpucoll_timeout OMPI_MCA_mca_base_param_files
    if [ "$status" -eq 0 ] && says 'Parameter: *coll_gpucoll_timeout' && says 'Value: *abc'; then
        pass "no_number/$place"
    else
        fail "no_number/$place" "it was taken without a word (status $status)"
    fi
done
rm -f "$LOGS/parameters.$$"

# What was chosen and why.
launch --mca coll_gpucoll_verbose 20 "$PROGRAMS/allreduce" --quick --only=allreduce/sum/MPI_FLOAT
if [ "$status" -eq 0 ] && says 'gpucoll: version'; then
    pass verbose
else
    fail verbose "the version was not said (status $status)"
fi
exit 0
