#!/usr/bin/env bash
# How many CPUs the scripts think they have (cpus_here of contrib/lib.sh), in control groups that bound the time of a process. Runs in `make check`.
set -uo pipefail

# shellcheck source=contrib/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../contrib/lib.sh"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
all=$(nproc)
status=0

# expect CPUS WHAT: in the groups as they lie in $folder.
expect() {
    local wanted=$1 found
    [ "$wanted" -le "$all" ] || wanted=$all
    found=$(cpus_here "$folder/cgroup" "$folder")
    [ "$found" = "$wanted" ] || { echo "FAIL $2: $found CPUs instead of $wanted"; status=1; }
}

echo '0::/a/b' >"$folder/cgroup"
expect "$all" 'groups without files'
mkdir -p "$folder/a/b"
echo 'max 100000' >"$folder/a/b/cpu.max"
expect "$all" 'no bound'
echo '100000 100000' >"$folder/a/cpu.max"
expect 1 'a bound of the group above'
echo '120000 100000' >"$folder/a/cpu.max"
expect 2 'more than one CPU'
echo '1000 100000' >"$folder/cpu.max"
expect 1 'a small part of one, of all groups'

rm "$folder/cpu.max"
printf '%s\n' '4:memory:/x' '3:cpu,cpuacct:/docker/1' '0::/' >"$folder/cgroup"
mkdir -p "$folder/cpu,cpuacct"
echo -1 >"$folder/cpu,cpuacct/cpu.cfs_quota_us"
echo 100000 >"$folder/cpu,cpuacct/cpu.cfs_period_us"
expect "$all" 'version 1 without a bound'
echo 100000 >"$folder/cpu,cpuacct/cpu.cfs_quota_us"
expect 1 'version 1, in a container'
printf '%s\n' '3:cpuset:/' '0::/' >"$folder/cgroup"
expect "$all" 'another controller'
rm -r "$folder/cpu,cpuacct"
printf '%s\n' '3:cpu:/c' >"$folder/cgroup"
mkdir -p "$folder/cpu/c"
echo 100000 >"$folder/cpu/c/cpu.cfs_quota_us"
echo 100000 >"$folder/cpu/c/cpu.cfs_period_us"
expect 1 'the controller by itself'
[ "$(cpus_here /nowhere /nowhere)" = "$all" ] || { echo 'FAIL a system without control groups'; status=1; }
# shellcheck disable=SC2119
[ "$(cpus_here)" -ge 1 ] || { echo 'FAIL here'; status=1; }
exit $status
