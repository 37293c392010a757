# shellcheck shell=bash
# Functions that the scripts of contrib/ share. Source it; it sets $top, the top of the source tree.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Messages, sorting and numbers are to be the same everywhere.
export LC_ALL=C.UTF-8

# What is fetched or built once and kept: by default in the user's cache, or under _build where there is none that can be written.
cache_folder() {
    local folder=${GPUCOLL_CACHE:-} user=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
    if [ -z "$folder" ]; then
        folder=$user/gpucoll
        { [ -n "$user" ] && mkdir -p "$folder" && [ -w "$folder" ]; } 2>/dev/null || folder=$top/_build/cache
    fi
    echo "$folder"
}

# --- What the scripts say. Progress goes to standard error, results to standard output.

say() {
    printf '[%3d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2
}

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# help_if_asked ARGUMENT...: with --help among them, the comment at the head of the script, and its end.
help_if_asked() {
    local argument
    for argument in "$@"; do
        if [ "$argument" = --help ]; then
            sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0"
            exit 0
        fi
    done
}

# heartbeat LOG: every half minute the last line of it, until the script that started this ends.
heartbeat() {
    local nothing
    # Not `sleep`, a process that would outlive this one.
    exec {nothing}<> <(:)
    while kill -0 $$ 2>/dev/null; do
        read -r -t 30 -u "$nothing" || say "  ... $(tail -n 1 "$1" | cut -c 1-100)"
    done
}

# logged LOG COMMAND...: runs it with its output in LOG; on failure shows the end and returns its status.
logged() {
    local log=$1 status=0 beat
    shift
    mkdir -p "$(dirname "$log")"
    heartbeat "$log" &
    beat=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    kill "$beat" 2>/dev/null || true
    wait "$beat" 2>/dev/null || true
    if [ "$status" -ne 0 ]; then
        say "failed (status $status): $*"
        tail -n 25 "$log" | sed 's/^/    | /' >&2
        echo "    the whole of it: $log" >&2
    fi
    return "$status"
}

# absolute FOLDER: its name as it holds in any folder. What is none stays as it is, for its user to complain about.
absolute() {
    (unset CDPATH && cd "$1" 2>/dev/null && pwd) || echo "$1"
}

# --- Packages

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "needs root, and there is no sudo: $*" >&2
        return 1
    fi
}

has_package() {
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'
}

# need_packages NAME...: installs those of them that are missing.
need_packages() {
    local name
    local -a missing=()
    if ! command -v apt-get >/dev/null; then
        say "this is not Debian or Ubuntu: packages are taken as they are (configure names what is missing)"
        return 0
    fi
    for name in "$@"; do
        has_package "$name" || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing packages: ${missing[*]}"
    logged "$top/_build/log/apt-update.log" as_root apt-get update || return 1
    logged "$top/_build/log/apt-install.log" as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --no-install-recommends "${missing[@]}"
}

# build_packages [OPEN-MPI]: the system's Open MPI, unless that folder has one, or PATH one that is not the system's.
build_packages() {
    local mpicc=${1:+$1/bin/mpicc}
    local -a its_packages=(openmpi-bin libopenmpi-dev)
    : "${mpicc:=$(command -v mpicc)}"
    if [[ $mpicc = /* && $mpicc != /usr/bin/* && $mpicc != /bin/* ]] && "$mpicc" --showme:version >/dev/null 2>&1; then
        its_packages=()
    fi
    need_packages gcc g++ make autoconf automake libtool pkg-config "${its_packages[@]}" libhwloc-dev libpmix-dev \
        libevent-dev libucx-dev libgtest-dev libbenchmark-dev gfortran
}

# The Debian archive that this machine already uses and where apt has it from: "URI FILE:ENTRY".
debian_archive() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI) $(SOURCESENTRY)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' |
        sort -u | head -n 1
}

# archive_keyring FILE:ENTRY: the key that entry is trusted by; empty if it is one of apt's general ones.
archive_keyring() {
    local file=${1%:*} entry=${1##*:}
    case $file in
        *.sources) awk -v RS= -v n="$entry" 'NR == n' "$file" | sed -n 's/^Signed-By: *\(\/.*\)/\1/p' ;;
        *) sed -n "${entry}s/.*signed-by=\([^] ]*\).*/\1/p" "$file" ;;
    esac
}

# debian_source SUITE PACKAGE FOLDER LOG-PREFIX: fetches what the package's source consists of into the folder, with lists and sources of its
# own, so that the machine's stay as they are.
debian_source() {
    local suite=$1 package=$2 folder=$3 logs=$4 archive signed_by
    local -a own_apt=()
    command -v apt-get >/dev/null || { say "the source of $package is taken from Debian's archive, and there is no apt here"; return 1; }
    archive=$(debian_archive)
    if [ -z "$archive" ]; then
        logged "$top/_build/log/apt-update.log" as_root apt-get update || return 1
        archive=$(debian_archive)
    fi
    [ -n "$archive" ] || { say "apt's configuration here names no Debian archive"; return 1; }
    signed_by=$(archive_keyring "${archive##* }")
    mkdir -p "$folder/lists/partial"
    {
        echo 'Types: deb-src'
        echo "URIs: ${archive%% *}"
        echo "Suites: $suite"
        echo 'Components: main'
        [ -z "$signed_by" ] || echo "Signed-By: $signed_by"
    } >"$folder/$suite.sources"
    own_apt=(-o "Dir::State::Lists=$folder/lists" -o "Dir::Etc::SourceList=$folder/$suite.sources"
        -o Dir::Etc::SourceParts=/dev/null -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache="
        -o "APT::Sandbox::User=$(id -un)")
    say "fetching the source of $package from ${archive%% *}"
    logged "$logs-update.log" apt-get "${own_apt[@]}" update || return 1
    (cd "$folder" && logged "$logs-source.log" apt-get "${own_apt[@]}" source --download-only "$package")
}

# --- The CUDA compiler

# fetch_nvcc DIR: assembles a toolkit from NVIDIA's wheels. pip merges what they bring into one tree, nvidia/cu13.
fetch_nvcc() {
    local dir=$1 name
    local -a wheels=()
    python3 -m pip --version >/dev/null 2>&1 || need_packages python3-pip || return 1
    for name in nvcc crt runtime cccl; do
        wheels+=("nvidia-cuda-$name==13.0.*")
    done
    say "fetching nvcc 13.0 (NVIDIA's wheels) into ${dir#"$top"/}"
    rm -rf "$dir.new"
    logged "$top/_build/log/nvcc.log" python3 -m pip install --quiet --no-deps --no-compile --target "$dir.new" \
        "${wheels[@]}" 'nvidia-nvvm==13.0.*' || return 1
    [ -x "$dir.new/nvidia/cu13/bin/nvcc" ] || return 1
    rm -rf "$dir"
    mv "$dir.new/nvidia/cu13" "$dir"
    rm -rf "$dir.new"
}

# shellcheck disable=SC2034
# Sets what to tell configure: `cuda_option`, the toolkit at hand, else one fetched into ./.deps, else none; and `arch_option`,
# the architectures of the GPUs here, which saves compiling for others, or one to show that it compiles.
find_nvcc() {
    local nvcc archs
    archs=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -nu | paste -sd ,) || archs=
    arch_option=("--with-cuda-arch=${archs:-90}")
    for nvcc in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$top/.deps/cuda/bin/nvcc"; do
        if [ -n "$nvcc" ] && [ -x "$nvcc" ]; then
            cuda_option=--with-cuda=$(dirname "$(dirname "$nvcc")")
            return 0
        fi
    done
    if fetch_nvcc "$top/.deps/cuda"; then
        cuda_option=--with-cuda=$top/.deps/cuda
    else
        say "no nvcc could be had: building without CUDA kernels, for the host accelerator only"
        cuda_option=--without-cuda
        arch_option=()
    fi
}

# --- The machine's cores

# cpu_quotas [CGROUPS [ROOT]]: what the control groups of this process, and those above them, may have of the CPUs' time: a line "TIME PERIOD"
# for each, TIME "max" or negative where there is no bound. Of both versions of control groups; CGROUPS and ROOT are the system's files. In a
# container the groups' names may be the host's: then the ROOT itself is the container's.
cpu_quotas() {
    local cgroups=${1:-/proc/self/cgroup} root=${2:-/sys/fs/cgroup} number controllers group folder
    while IFS=: read -r number controllers group; do
        case $number:,$controllers, in
            0:,,) folder=$root ;;
            *,cpu,*) folder=$root/$controllers ;;
            *) continue ;;
        esac
        while :; do
            cat "$folder$group/cpu.max" 2>/dev/null
            paste -d ' ' "$folder$group/cpu.cfs_quota_us" "$folder$group/cpu.cfs_period_us" 2>/dev/null
            [ -n "${group%/}" ] || break
            group=${group%/*}
        done
    done <"$cgroups"
}

# shellcheck disable=SC2120
# cpus_here [CGROUPS [ROOT]]: the CPUs that this process may use, a part of one counted as one.
cpus_here() {
    cpu_quotas "$@" 2>/dev/null | awk -v cpus="$(nproc)" '
        $1 ~ /^[0-9]+$/ && $2 > 0 { n = int(($1 + $2 - 1) / $2); if (n < cpus) cpus = n }
        END { print cpus < 1 ? 1 : cpus }'
}

# --- Building

jobs_here() {
    # A C++ compilation can take 1 GB.
    # shellcheck disable=SC2119
    awk -v cpus="$(cpus_here)" '/^MemAvailable/ { n = int($2 / 1000000); print n < 1 ? 1 : n < cpus ? n : cpus }' /proc/meminfo
}

# In a clone, after a change to what configure and the Makefile.in are made from. A tarball brings them.
make_configure() {
    local newer
    if [ -f "$top/configure" ] && [ -f "$top/Makefile.in" ]; then
        newer=$(find "$top" -path "$top/_*" -prune -o -newer "$top/Makefile.in" \
            \( -name configure.ac -o -name Makefile.am -o -name local.mk -o -path '*/m4/gpucoll_*' \) -print -quit)
        [ -n "$newer" ] || return 0
    fi
    logged "$top/_build/log/autogen.log" "$top/autogen.sh"
}

# build DIR LOG-PREFIX CONFIGURE-OPTION...: configures DIR, if the options are not those it has already, and builds.
build() {
    local dir=$1 logs=$2 options
    shift 2
    options="$*"
    make_configure || return 1
    mkdir -p "$dir"
    if [ ! -f "$dir/config.status" ] || [ "$(cat "$dir/.options" 2>/dev/null)" != "$options" ]; then
        rm -f "$dir/.options"
        (cd "$dir" && logged "$logs-configure.log" "$top/configure" --disable-maintainer-mode "$@") || return 1
        echo "$options" >"$dir/.options"
    elif [ "$top/configure" -nt "$dir/config.status" ]; then
        (cd "$dir" && logged "$logs-configure.log" ./config.status --recheck &&
            logged "$logs-configure.log" ./config.status) || return 1
    fi
    logged "$logs-make.log" make -C "$dir" -j"$(jobs_here)"
}

# made_with DIR VARIABLE: what the build in DIR was configured with.
made_with() {
    sed -n "s/^$2 = //p" "$1/Makefile"
}

# installed_programs PREFIX: the folder in which the benchmarks and tests of an installation are: libexec/gpucoll, or another by --libexecdir.
installed_programs() {
    local found=$1/libexec/gpucoll
    [ -d "$found" ] || found=$(find -H "$1"/lib* -type d -path '*/gpucoll/bench' -printf '%h\n' -quit 2>/dev/null) || true
    echo "${found:-$1/libexec/gpucoll}"
}

# installed_component PREFIX: the folder in which the component of an installation is: lib/openmpi, or another by --libdir. It is looked for, as
# PREFIX may have been moved or copied; only where it was installed outside of PREFIX (--with-ompi-plugin-dir), env.sh tells. Empty if there is none.
installed_component() {
    local file name=mca_coll_gpucoll.so
    file=$(find -H "$1"/lib* -name "$name" -print -quit 2>/dev/null) || true
    if [ -z "$file" ]; then
        # shellcheck disable=SC1091
        file=$( (unset OMPI_MCA_mca_base_component_path && . "$1/env.sh" && echo "$OMPI_MCA_mca_base_component_path") 2>/dev/null) || return 0
        file=${file#SYSTEM_DEFAULT:}
        file=${file%:USER_DEFAULT}/$name
    fi
    [ ! -f "$file" ] || dirname "$file"
}

# --- The machine

machine_name() {
    # shellcheck disable=SC1091
    printf '%s, %s, %d cores' "$(. /etc/os-release && echo "$PRETTY_NAME")" "$(uname -m)" "$(nproc)"
}

# Lets mpirun run as root, with more ranks than cores, not bound, in a container; and find no gpucoll that is installed, unless told.
mpi_settings() {
    unset OMPI_MCA_mca_base_component_path OMPI_MCA_mca_component_path
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
    # Ranks of one host that do not share memory, such as spawned ones, meet where any network's rules let them.
    export OMPI_MCA_btl_tcp_if_include=lo
    export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_base_warn_component_unused=0
    # A munge daemon that has ended leaves its socket, for which each mpirun would wait 2 s.
    export PMIX_MCA_psec=^munge
}

# --- Results: lines `PASS name`, `FAIL name: detail`, `SKIP name: why` in a file.

# gtest_results PREFIX: turns GoogleTest's output into such lines.
gtest_results() {
    sed -nE "s/^\[       OK \] ([^ ]+).*/PASS $1 \1/p; s/^\[  SKIPPED \] ([^ ,]+) \(.*/SKIP $1 \1/p
        s/^\[  FAILED  \] ([^ ,]+).* \([0-9]+ ms\)$/FAIL $1 \1/p"
}

# record PASS|FAIL|SKIP NAME [WHY]: adds a line to the file $results.
record() {
    printf '%s %s%s\n' "$1" "$2" "${3:+: $3}" >>"${results:?}"
    case $1 in
        PASS) say "passed: $2" ;;
        FAIL) say "FAILED: $2${3:+: $3}" ;;
        SKIP) say "skipped: $2${3:+: $3}" ;;
    esac
}

# attempt NAME COMMAND...: runs it and records whether it succeeded; returns its status.
attempt() {
    local name=$1 status=0
    shift
    say "$name"
    "$@" || status=$?
    if [ "$status" -eq 0 ]; then
        record PASS "$name"
    else
        record FAIL "$name" "status $status"
    fi
    return "$status"
}

# ran_all_rows LOG: did test/run_mpi.sh, which wrote it, come to its last line, the counts?
ran_all_rows() {
    tail -n 1 "$1" | grep '^[0-9]* passed, ' >/dev/null
}

# need_parts PART,PART...: ends the script if there is no function part_PART for one of them.
need_parts() {
    local part
    for part in ${1//,/ }; do
        declare -F "part_$part" >/dev/null || die "--only $part: there is no such part"
    done
}

# Ends a check: why how much was skipped, what failed, then the counts; its status is 0 if nothing failed.
finish() {
    sed -n 's/^SKIP .*: //p' "${results:?}" | sort | uniq -c | sort -rn |
        while read -r number why; do echo "SKIP $number × $why"; done
    grep '^FAIL' "$results" || true
    awk '{ n[$1]++ }
        END { printf "%d passed, %d failed, %d skipped\n", n["PASS"], n["FAIL"], n["SKIP"]; exit n["FAIL"] > 0 }' "$results"
}
