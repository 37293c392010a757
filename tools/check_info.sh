#!/usr/bin/env bash
# gpucoll_info's questions to the cost model: --tune measures on the host accelerator and writes a file that is then taken, --explain
# shows candidates and the choice, and what is asked wrongly is said. Runs in `make check`, in the build folder.
set -uo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
out=$folder/out
file=$folder/tuned
for name in $(compgen -e); do
    case $name in OMPI_MCA_coll_gpucoll_*) unset "$name" ;; esac
done

# ends STATUS TEXT ARGUMENT...: gpucoll_info ends so and says something that matches the text.
ends() {
    local wanted=$1 text=$2
    shift 2
    timeout 100 ./gpucoll_info "$@" >"$out" 2>&1
    local got=$?
    if [ "$got" -ne "$wanted" ]; then
        echo "FAIL gpucoll_info $*: status $got, not $wanted" >&2
    elif ! grep -q -e "$text" "$out"; then
        echo "FAIL gpucoll_info $*: says nothing that matches '$text'" >&2
    else
        echo "PASS gpucoll_info $*"
        return
    fi
    sed 's/^/    /' "$out" >&2
    status=1
}

fail() {
    echo "FAIL $*" >&2
    status=1
}

# says_nothing TEXT WHAT: what has just ended has said nothing that matches.
says_nothing() {
    ! grep -q -e "$1" "$out" || fail "$2: says '$1'"
}

export OMPI_MCA_coll_gpucoll_accelerator=host OMPI_MCA_coll_gpucoll_lanes=1 OMPI_MCA_coll_gpucoll_scratch_bytes=1M
ends 0 'predictions are within' --tune --seconds 0.5 --max 64K --ranks 3 --output "$file"
ends 0 'the choice is within 5 % of the quickest for' --tune --seconds 0.5 --max 4K
ends 0 '^launch = [0-9.]* us ' --tune --seconds 0.5 --max 4K
# What few CTAs do in bulk, and what goes through host memory, is measured as well.
ends 0 '^bulk_cta_bandwidth = ' --tune --seconds 0.5 --max 1M
ends 0 '^cpu_bandwidth = ' --tune --seconds 0.5 --max 1M
ends 2 '--tune knows --ranks' --tune --pigeon 3
ends 2 'expected 2 to 32' --tune --ranks 1
ends 2 'lacks its value' --tune --output
ends 2 '--tune: --output lacks its value' --tune --output --ranks
ends 2 '--tune knows --ranks .* not --pigeon' --tune --pigeon
ends 1 'No such file or directory' --tune --seconds 0.1 --max 1K --output "$folder/nowhere/file"
says_nothing 'predictions are within' "a file that cannot be written"
if [ -e /dev/full ]; then
    ends 1 'No space left' --tune --seconds 0.1 --max 1K --output /dev/full
    if ./gpucoll_info --build >/dev/full 2>"$out" || ! grep -q 'writing the answer: No space' "$out"; then
        fail "gpucoll_info --build >/dev/full: does not tell that nothing was written"
    fi
fi
# What stands in a file stays until there is something else to write.
echo kept >"$folder/kept"
OMPI_MCA_coll_gpucoll_transports=none ends 1 '--tune' --tune --seconds 0.1 --max 1K --output "$folder/kept"
OMPI_MCA_coll_gpucoll_transports=none ends 1 '--tune' --tune --seconds 0.1 --max 1K --output "$folder/new"
[ "$(cat "$folder/kept")" = kept ] || fail "--tune that fails writes its file"
[ ! -e "$folder/new" ] || fail "--tune that fails leaves an empty file"
left=$(find /dev/shm -name '*gpucoll*' -newer "$folder" 2>/dev/null)
[ -z "$left" ] || fail "left in /dev/shm: $left"

ends 0 '^  \* .* us' --explain allreduce 4K
ends 0 '^  choice: twoshot by bulk' --explain allreduce 2M --ranks 4
ends 0 'exchange *simple' --explain bcast 4M --ranks 7
ends 0 '7 ranks' --explain bcast 4M --ranks 7
ends 2 'such as --explain allreduce 4M' --explain allreduce
ends 2 'expected a collective' --explain pigeon 4M
ends 2 '--explain: .*expected a size' --explain allreduce 1Q
ends 2 '--banana: no such option' --explain allreduce 4M --banana 3
ends 2 '--explain: --ranks lacks its value' --explain allreduce 4M --ranks
says_nothing choice "an option that lacks its value"
ends 2 '--banana: no such option' --build --banana
says_nothing Build "an option behind it that does not exist"
ends 2 '--topology-xml lacks its value' --topology-xml --gpus
[ ! -e --gpus ] || fail "an option is taken for the name of a file"
ends 0 '' --build
says_nothing 'arch=' "the list of architectures"
ends 0 '^  allreduce: oneshot by ll128$' --algorithms
ends 2 'expected 1 to 32' --explain allreduce 4M --ranks 99
for value in inf nan 1e999 -1 x; do
    ends 2 '--select: .*expected GB/s' --select "ranks=4,bytes=8,bandwidth=$value"
done
ends 2 'coll, ranks, .* or bandwidth, each' --select=pigeon
ends 0 '^  choice: ' --select=bytes=4K
ends 0 'links of 1.50 us and 25 GB/s or through host memory' --select link=pcie,bytes=4K
ends 0 'links of 3.00 us and 10 GB/s or through' --select latency_us=3,link=pcie,bandwidth=10,bytes=4K
for key in coll ranks bytes op type shared_gpu direct in_place peer_access link crew resident latency_us bandwidth; do
    ends 0 "^  *$key  *[a-zG0-9]" --help
done
ends 0 'launch *= ' --constants

# A value of the environment that is not accepted.
export OMPI_MCA_coll_gpucoll_chunk=banana
ends 0 '^gpucoll_info: OMPI_MCA_coll_gpucoll_chunk=banana is not accepted (bytes, .*0..1G): the default is taken, 0$' --explain allreduce 4M
ends 0 '^gpucoll_info: OMPI_MCA_coll_gpucoll_chunk=banana is not accepted' --explain allreduce 4M --select bytes=8
[ "$(grep -c 'is not accepted' "$out")" -eq 1 ] || fail "a value that is not accepted is said several times"
ends 0 '^[0-9.]*$' --version
says_nothing accepted "an option that takes no settings"
ends 1 'coll_gpucoll_chunk = 0 (the environment.s "banana" is not accepted)' --parameters
says_nothing '^gpucoll_info: OMPI' "--parameters, which marks values"
unset OMPI_MCA_coll_gpucoll_chunk
OMPI_MCA_coll_gpucoll_lane=8 ends 0 '^gpucoll_info: OMPI_MCA_coll_gpucoll_lane: there is no such parameter' --explain allreduce 4M
OMPI_MCA_coll_gpucoll_lane=8 ends 1 '^  OMPI_MCA_coll_gpucoll_lane: there is no such parameter' --parameters
OMPI_MCA_coll_gpucoll_transports=p2p,pigeon ends 1 'coll_gpucoll_transports=p2p,pigeon: there is no such transport' --transports
OMPI_MCA_coll_gpucoll_transports=p2p,pigeon ends 0 'coll_gpucoll_transports=p2p,pigeon: there is no such transport' --explain allreduce 4M
OMPI_MCA_coll_gpucoll_tuning_file=$folder/nothing ends 1 '^  choice: ' --explain allreduce 4M
OMPI_MCA_coll_gpucoll_protocol=banana ends 0 'protocol=banana is not accepted (.*ll128' --select bytes=8

# By what the ranks reach each other: peer access, the links of a topology file, coll_gpucoll_transports.
samples=${srcdir:-.}/test/topology
ends 0 'through host memory' --explain allreduce 64M --peer-access no
ends 0 '^  choice: cpu by host' --explain allreduce 64M --peer-access no
ends 0 '^  choice: pipes by host' --explain bcast 4M --ranks 4 --topology "$samples/dgx-h200.xml" --peer-access no
ends 0 'links of 2.50 us and 13 GB/s or through host memory' --explain allreduce 64M --topology "$samples/pcie-4gpu.xml"
ends 0 '^  choice: twoshot by ll128' --explain allreduce 256K --topology "$samples/dgx-a100.xml" --ranks 4
ends 0 'bulk *cannot: .* a GPU that does not do so' --explain bcast 4M --topology "$samples/pcie-4gpu.xml"
ends 0 '^  choice: twoshot by bulk' --explain allreduce 256K --topology "$samples/h200-4gpu.xml"
ends 0 '^  choice: exchange by direct' --select "coll=allgather,ranks=4,bytes=1M"
ends 0 '^  choice: .* by copy' --select "coll=allgather,ranks=4,bytes=1M,unattended=yes"
ends 0 'each CTA has an SM while' --explain allreduce 256K
ends 0 '4 ranks, links of 0.62 us and 354 GB/s$' --explain allreduce 64M --topology "$samples/h200-4gpu.xml"
ends 0 'built in for ranks that share one' --explain allreduce 4M --topology "$samples/h200-4gpu.xml" --ranks 5
says_nothing 'built in for NVIDIA H200' "GPUs that it has constants for"
ends 0 'none are built in for .* without NVLink' --explain allreduce 4M --topology "$samples/pcie-4gpu.xml"
ends 1 "^gpucoll_info: --topology: $folder/nothing: No such file or directory\$" --explain allreduce 4M --topology "$folder/nothing"
[ "$(wc -l <"$out")" -eq 1 ] || fail "--topology of a file that is not there says more than that"
OMPI_MCA_coll_gpucoll_topology_file=$folder/nothing ends 1 '^gpucoll_info: coll_gpucoll_topology_file: .*: No such' --explain allreduce 4M
echo '<banana/>' >"$folder/banana.xml"
ends 1 "^gpucoll_info: --topology: .*banana.xml: line 1: " --topology "$folder/banana.xml"
ends 0 '16 ranks on 2 hosts, between which a rank has' --explain allreduce 4M --topology "$samples/two-hosts.xml" --ranks 16
ends 0 'on the first host, 8 ranks, links' --explain allreduce 4M --topology "$samples/two-hosts.xml" --ranks 16
ends 0 '^  before what goes between the hosts: reduce_scatter' --explain allreduce 4M --topology "$samples/two-hosts.xml" --ranks 16
says_nothing '^    twoshot' "a call of several hosts"
grep -q '^  after what goes between the hosts: allgatherv' "$out" || fail "no collective after what goes between the hosts"
grep -q '524288 bytes along each of 8 rails' "$out" || fail "nothing goes between the hosts"
[ "$(grep -c '^  \* ' "$out")" -eq 3 ] || fail "not one choice for each of three stages"
ends 0 '^  before and after what goes between the hosts: alltoallv' --explain alltoall 1M --topology "$samples/two-hosts.xml" --ranks 16
grep -q '^  between the hosts from rank to rank' "$out" || fail "an all-to-all goes along rails"
ends 0 'along a rail of all ranks, in their order' --explain scan 1K --topology "$samples/two-hosts.xml" --ranks 16
grep -q '^  \* doubling  *[0-9.]* us' "$out" || fail "a scan of few bytes goes along a chain"
ends 0 '^  \* ring' --explain scan 4M --topology "$samples/two-hosts.xml" --ranks 16
OMPI_MCA_coll_gpucoll_deterministic=1 ends 0 '^  \* ring' --explain scan 1K --topology "$samples/two-hosts.xml" --ranks 16
OMPI_MCA_coll_gpucoll_deterministic=1 ends 0 'up and down a chain of all' --explain allreduce 4M --topology "$samples/two-hosts.xml" --ranks 16
OMPI_MCA_coll_gpucoll_deterministic=1 ends 0 'coll_gpucoll_carry' --explain bcast 64 --topology "$samples/two-hosts.xml" --ranks 16
ends 0 'along with what the hosts tell each other' --explain allreduce 64 --topology "$samples/two-hosts.xml" --ranks 16
OMPI_MCA_coll_gpucoll_carry=0 ends 0 '^  before what goes between the hosts: reduce_scatter' --explain allreduce 64 --topology "$samples/two-hosts.xml" --ranks 16
# Two GPUs of each host.
awk '/<host /{n = 0} /<gpu /{n++; skip = n > 2} !skip{print} /<\/gpu>/{skip = 0}' "$samples/two-hosts.xml" >"$folder/pairs.xml"
ends 0 'of few bytes (coll_gpucoll_flat)' --explain allreduce 12K --topology "$folder/pairs.xml" --ranks 4
ends 0 '^  up to 16384 bytes along a rail of all ranks' --select coll=allreduce,ranks=4 --topology "$folder/pairs.xml"
OMPI_MCA_coll_gpucoll_transports=p2p ends 0 'it is left to the next component' --explain allreduce 4M --topology "$samples/two-hosts.xml" --ranks 16
ends 0 '^  up to [0-9]* bytes along with what the hosts tell' --select coll=allgather,ranks=16 --topology "$samples/two-hosts.xml"
ends 0 '^ *64M  ' --select coll=bcast,ranks=16 --topology "$samples/two-hosts.xml"
OMPI_MCA_coll_gpucoll_allreduce_algorithm=ring ends 0 '=ring is of calls within one host: here those of reduce_scatter and allgatherv' \
    --explain allreduce 4M --topology "$samples/two-hosts.xml" --ranks 16
OMPI_MCA_coll_gpucoll_rail_algorithm=tree ends 0 '^  \* tree' --explain allreduce 4M --topology "$samples/two-hosts.xml" --ranks 16
ends 0 '^ *64M  pipes ' --select coll=alltoall,ranks=3,peer_access=no
ends 2 'expected yes (GPUs can store' --explain allreduce 4M --peer-access maybe
OMPI_MCA_coll_gpucoll_transports=shm ends 0 '^  choice: pipes by host' --explain alltoall 4M
OMPI_MCA_coll_gpucoll_transports=shm ends 0 '^  choice: pipes by host' --explain allreduce 4M
OMPI_MCA_coll_gpucoll_transports=p2p ends 0 'nothing can run it' --select coll=scan,shared_gpu=yes,bytes=900G
ends 0 '4 ranks that share a GPU, links of .* or through host memory' --select ranks=4,shared_gpu=yes,bytes=8
ends 0 '^  choice: oneshot by ll,' --select ranks=4,shared_gpu=mps,bytes=8
OMPI_MCA_coll_gpucoll_transports=p2p,cpu_reduce ends 0 'cpu *host *[0-9.]* us' --explain allreduce 4M
OMPI_MCA_coll_gpucoll_transports=p2p ends 0 'no transport reaches the other ranks' --explain allreduce 4M --peer-access no
OMPI_MCA_coll_gpucoll_transports=rdma ends 0 'each rank is a host of its own' --explain allreduce 4M
OMPI_MCA_coll_gpucoll_transports=none ends 0 'no transport reaches the other ranks' --explain allreduce 4M

if ./gpucoll_info --network | grep -q '^  UCX  *[0-9]'; then
    export OMPI_MCA_coll_gpucoll_net_devices=lo
    ends 0 '^  lo  *tcp, loopback (chosen)' --network
    OMPI_MCA_coll_gpucoll_net_devices=pigeon0
    ends 1 '^  wanted  *pigeon0' --network
    unset OMPI_MCA_coll_gpucoll_net_devices
    OMPI_MCA_coll_gpucoll_net_gpu_memory=no ends 0 '^  CUDA memory  *not used directly' --network
else
    ends 0 'Network' --network
fi

wanted=$(sed -n 's/^launch = \([^ ]*\) us.*/\1/p' "$file")
export OMPI_MCA_coll_gpucoll_tuning_file=$file
ends 0 "launch *= *$wanted us" --constants
ends 0 "that $file sets" --explain allreduce 4K
echo 'launch = 7 parsecs' >>"$file"
ends 1 'tuning' --constants
exit $status
