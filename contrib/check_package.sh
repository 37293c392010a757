# shellcheck shell=bash
# The part of contrib/check that looks at gpucoll as a package: what a packager and a centre do with it, and what configure
# says where something is missing. Sourced by contrib/check, which sets $logs, $results and $cuda_option.

# expect_error NAME TEXT...: the configure run in $package/errors, with the options in the array `with`, must fail and say each TEXT.
expect_error() {
    local name=$1 log="$logs/error-${1// /-}.log" text
    shift
    mkdir -p "$package/errors"
    if (cd "$package/errors" && rm -rf ./* && "$top/configure" "${with[@]}") >"$log" 2>&1 </dev/null; then
        record FAIL "configure, $name" "succeeded"
        return
    fi
    for text in "$@"; do
        grep -qF -e "$text" "$log" || { record FAIL "configure, $name" "does not say '$text': see $log"; return; }
    done
    record PASS "configure, $name"
}

# pretended_ompi FOLDER OPTION ANSWER: an Open MPI whose mpicc gives that answer to that option, and all else as the one gpucoll is built for.
pretended_ompi() {
    rm -rf "$1"
    mkdir -p "$1/bin"
    ln -s "$(made_with "$top/_build/mpi" MPIRUN)" "$1/bin/mpirun"
    cat >"$1/bin/mpicc" <<END
#!/bin/sh
[ "\$1" != $2 ] || { echo "$3"; exit; }
exec "$(made_with "$top/_build/mpi" MPICC)" "\$@"
END
    chmod +x "$1/bin/mpicc"
}

# other_source NAME INSTALLED RELEASE GREEK TEXT: for Open MPI INSTALLED, with a source tree of 5.0.RELEASE whose version ends in GREEK,
# configure fails and says TEXT.
other_source() {
    local tree=$package/other-source with
    with=(--without-cuda --with-ompi="$package/other-ompi" --with-ompi-src="$tree")
    pretended_ompi "$package/other-ompi" --showme:version "mpicc: Open MPI $2 (Language: C)"
    mkdir -p "$tree/opal/include"
    printf '#define OPAL_%s_VERSION %s\n' GREEK "\"$4\"" MAJOR 5 MINOR 0 RELEASE "$3" >"$tree/opal/include/opal_config.h"
    expect_error "source tree $1" "$5"
}

configure_errors() {
    local nothing=$package/nothing with
    mkdir -p "$nothing"
    with=(--without-cuda --with-ompi="$nothing")
    expect_error "no Open MPI in the prefix" "$nothing/bin/mpicc was not found" "--with-ompi takes the prefix"
    with=(--with-cuda="$nothing")
    expect_error "no nvcc" "nvcc was not found in $nothing/bin" "apt-get install nvidia-cuda-toolkit" "--without-cuda"
    with=(--without-cuda PKG_CONFIG_LIBDIR="$nothing" PKG_CONFIG_PATH="$nothing")
    expect_error "no hwloc" "apt-get install libhwloc-dev" "dnf install hwloc-devel"
    with=(--without-cuda PKG_CONFIG=false)
    expect_error "no pkg-config" "apt-get install pkg-config" "dnf install pkgconf-pkg-config"
    with=(--without-cuda ac_cv_prog_ac_ct_gpucoll_any_cc=)
    expect_error "no C compiler" "apt-get install gcc"
    with=(--without-cuda ac_cv_prog_ac_ct_gpucoll_any_cxx=)
    expect_error "no C++ compiler" "apt-get install g++"
    with=(--without-cuda --with-ucx PKG_CONFIG_LIBDIR="$nothing" PKG_CONFIG_PATH="$nothing" HWLOC_CFLAGS=-I. HWLOC_LIBS=-lm)
    expect_error "no UCX" "apt-get install libucx-dev" "dnf install ucx-devel"
    # Not the system's instead.
    with=(--without-cuda --with-hwloc="$nothing")
    expect_error "no hwloc in the prefix" "--with-hwloc=$nothing: there is no $nothing/include/hwloc.h"
    with=(--without-cuda --with-ucx="$nothing")
    expect_error "no UCX in the prefix" "--with-ucx=$nothing: there is no $nothing/include/ucp/api/ucp.h"
    with=(--without-cuda --with-ompi-plugin-dir=relative)
    expect_error "component folder that is no whole path" "--with-ompi-plugin-dir=relative: it must be a whole path"
    with=(--without-cuda --with-ompi-plugin-dir="$nothing|")
    expect_error "component folder with a bar" "--with-ompi-plugin-dir=$nothing|: gpucoll cannot be installed in a folder"
    with=(--without-cuda --prefix="$nothing/a b")
    expect_error "prefix with a space" "--prefix=$nothing/a b: gpucoll cannot be installed in a folder"
    with=(--without-cuda --libdir="$nothing|")
    expect_error "folder with a bar" "--libdir=$nothing|: gpucoll cannot be installed in a folder"
    with=(--without-cuda --with-ompi-src="$nothing")
    expect_error "no Open MPI source tree" "has no opal/include/opal_config.h" "run Open MPI's configure there"
    other_source "of a version that begins alike" 5.0.10 1 "" "is Open MPI 5.0.1, but"
    other_source "of a release candidate" 5.0.10 10 rc1 "is Open MPI 5.0.10rc1, but"
    other_source "of the release" 5.0.10rc1 10 "" "is Open MPI 5.0.10, but"
    if [ "$cuda_option" != --without-cuda ]; then
        with=("$cuda_option" --with-cuda-arch=12)
        expect_error "unknown architecture" "does not know architecture 12; it knows:"
        with=("$cuda_option" --with-cuda-arch=)
        expect_error "no architecture" "--with-cuda-arch needs a list of architectures"
    fi
    with=(--disable-mpi --without-cuda --enable-sanitizers)
    expect_error "sanitizers without a list" "--enable-sanitizers=address,undefined"
}

# Each script says with --help what its head says, and does nothing else.
scripts_help() {
    local name out
    for name in check gpu_check mpi4py mpich_tests ompi5 quickstart; do
        out=$("$top/contrib/$name" --help </dev/null) || { echo "$name --help: status $?"; return 1; }
        [[ $out == *$'\n'* && $out != *'set -euo'* ]] || { echo "$name --help: $out"; return 1; }
    done
    ! "$top/contrib/ompi5" --pigeon || { echo "ompi5 takes an argument"; return 1; }
}

# A directory of autotools that fail: in front of PATH it makes a machine that has none.
without_autotools() {
    local name
    mkdir -p "$package/no-autotools"
    for name in autoconf autoheader autom4te automake aclocal autoreconf libtool libtoolize m4; do
        printf '#!/bin/sh\necho "%s is not installed here" >&2\nexit 127\n' "$name" >"$package/no-autotools/$name"
        chmod +x "$package/no-autotools/$name"
    done
    PATH=$package/no-autotools:$PATH "$@"
}

# The tarball has every file of the repository but what is for those who edit it there.
tarball_is_whole() {
    local missing
    git -C "$top" rev-parse --git-dir >/dev/null 2>&1 || { echo "not a clone: nothing to compare with"; return; }
    missing=$(cd "$top" && git ls-files | grep -Ev '^\.(clang-format|editorconfig|gitignore)$' | while IFS= read -r file; do
        [ -e "$package/source/$file" ] || echo "$file"
    done)
    [ -z "$missing" ] || { echo "not in the tarball:"; echo "$missing"; return 1; }
}

unpack_tarball() {
    local tarball
    tarball=$(ls "$1"/gpucoll-*.tar.gz)
    rm -rf "$package/source"
    mkdir -p "$package/source"
    tar -xzf "$tarball" -C "$package/source" --strip-components=1
    # As in an unpacked archive of a distribution: nobody writes into the source.
    chmod -R a-w "$package/source"
}

# The recipes' versions are this one's.
recipes_are_of_this_version() {
    local easybuild spack
    easybuild=$(sed -n "s/^version = '\(.*\)'$/\1/p" "$package/source"/contrib/easybuild/*.eb)
    spack=$(sed -n 's/^    version("\(.*\)")$/\1/p; s/^    url = .*gpucoll-\(.*\)\.tar\.gz"$/\1/p' \
        "$package/source/contrib/spack/spack_repo/gpucoll/packages/gpucoll/package.py" | sort -u)
    echo "gpucoll $version; EasyBuild: $easybuild; Spack: $spack"
    [ "$easybuild" = "$version" ] && [ "$spack" = "$version" ]
}

# What has nvcc compile kernels in a sixth of the time, for code that nothing here runs: from CUDA 12.9 on.
quick_kernels() {
    ! "${cuda_option#--with-cuda=}/bin/nvcc" --help 2>/dev/null | grep -e --Ofast-compile >/dev/null || echo --Ofast-compile=max
}

# own_library MODULE: of what pkg-config knows of it, a folder $package/MODULE as --with-MODULE takes it.
own_library() {
    local own=$package/$1 file
    rm -rf "$own"
    mkdir -p "$own/lib" "$own/share/pkgconfig"
    ln -s "$(pkg-config --variable=includedir "$1")" "$own/include"
    # Not the folder: pkg-config would see that it is the system's.
    find "$(pkg-config --variable=libdir "$1")" -maxdepth 1 '(' -name 'libhwloc.so*' -o -name 'libuc[mpst].so*' ')' -exec ln -s -t "$own/lib" '{}' +
    for file in "$(pkg-config --variable=pcfiledir "$1")/$1"*.pc; do
        sed -E "s|^prefix *=.*|prefix=$own|; s|^libdir *=.*|libdir=$own/lib|; s|^includedir *=.*|includedir=$own/include|" \
            "$file" >"$own/share/pkgconfig/${file##*/}"
    done
}

# Is what --with-hwloc and --with-ucx named what will be loaded, and do the loader's own folders stay out of it?
own_libraries_are_loaded() {
    local file name
    for file in "$package/prefix/lib64/openmpi/mca_coll_gpucoll.so" "$package/prefix/bin/gpucoll_info"; do
        for name in "${own[@]}"; do
            readelf -d "$file" | grep -E "R(UN)?PATH.*(\[|:)$package/$name/lib[]:]" || { echo "$file: nothing of $name"; return 1; }
        done
        ldd "$file" | grep "=> $package/hwloc/lib/libhwloc" || { echo "$file: another hwloc"; return 1; }
    done
    ! readelf -d "$top"/_build/mpi/{gpucoll_info,ompi/mca/coll/gpucoll/.libs/mca_coll_gpucoll.so} |
        grep -E 'R(UN)?PATH.*(\[|:)(/usr)?/lib(64|/[^/]*-linux-gnu)?[]:]'
}

# For every architecture that nvcc knows: the one place where contrib/check compiles all that a release compiles. The part mpi compiles one
# of them as a release does; with `--release yes` all are compiled so here.
build_tarball() (
    rm -rf "$package/build" "$package/prefix"
    mkdir -p "$package/build"
    flags=
    [ "$release" = yes ] || flags=$(quick_kernels)
    options=(--prefix="$package/prefix" --libdir="$package/prefix/lib64" --libexecdir="$package/prefix/lib64" --enable-werror "$cuda_option")
    for name in "${own[@]}"; do
        own_library "$name" || return 1
        options+=("--with-$name=$package/$name")
    done
    cd "$package/build" &&
        ../source/configure "${options[@]}" &&
        make -j"$(jobs_here)" NVCCFLAGS="$flags"
)

# use_installed LOADER PREFIX: a program finds gpucoll after `eval`ing what LOADER prints, and nothing else.
use_installed() {
    local settings
    settings=$("$@") || return 1
    env -i HOME="${HOME:-/}" PATH=/usr/local/bin:/usr/bin:/bin OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        OMPI_MCA_coll_gpucoll_accelerator=host bash -euc "$settings
            mpirun -n 2 --oversubscribe --mca coll gpucoll gpucoll_demo --max 64K --iterations 20
            ompi_info --parsable --param coll gpucoll --level 9 | grep 'mca:coll:gpucoll:.*priority' >&2"
}

# A mpirun of somebody else's, in front of the system's, stays there; and an installation without its component is named and sets nothing.
settings_keep_order() {
    local loader path=$package/others:/usr/bin:/bin broken=$package/broken found
    rm -rf "$broken"
    mkdir -p "$broken" "$package/others"
    printf '#!/bin/sh\n' >"$package/others/mpirun"
    chmod +x "$package/others/mpirun"
    cp -R "$package/prefix/env.sh" "$package/prefix/share" "$broken"
    sed -i "s|$package/prefix|$broken|g" "$broken/env.sh" "$broken/share/modulefiles/gpucoll/$version"
    for loader in environment_file environment_module; do
        if [ "$(made_with "$package/build" OMPI_BINDIR)" = /usr/bin ]; then
            found=$(env -i PATH="$path" bash -uc "$(PATH=$path "$loader" "$package/prefix")
                echo \"\$PATH\"")
            [ "$found" = "$package/prefix/bin:$path" ] || { echo "$loader: PATH is $found"; return 1; }
        fi
        found=$(env -i PATH="$path" bash -uc "$(PATH=$path "$loader" "$broken" 2>"$package/broken.log")
            echo \"\$PATH \${OMPI_MCA_mca_base_component_path:-}\"" 2>>"$package/broken.log")
        [ "$found" = "$path " ] || { echo "$loader: set $found"; return 1; }
        grep "$broken/lib64/openmpi does not exist" "$package/broken.log" || { echo "$loader: does not say so"; return 1; }
    done
}

# The component is found in lib64, in a copy of the installation rather than where that was, and outside where env.sh tells.
component_is_found() {
    local prefix=$package/prefix copy=$package/copy found
    rm -rf "$copy"
    cp -R "$prefix" "$copy"
    for found in "$prefix" "$copy"; do
        [ "$(installed_component "$found")" = "$found/lib64/openmpi" ] || { echo "not found in $found"; return 1; }
    done
    rm -r "$copy/lib64"
    [ "$(installed_component "$copy")" = "$prefix/lib64/openmpi" ] || { echo "not found where env.sh says"; return 1; }
    sed -i "s|$prefix/lib64/openmpi|$package/nothing|g" "$copy/env.sh"
    [ -z "$(installed_component "$copy")" ] || { echo "found where there is none"; return 1; }
}

# So are the benchmarks, whose folder is not libexec here: by contrib/gpu_check, and by their own scripts from the gpucoll_info on PATH.
programs_are_found() {
    local prefix=$package/prefix
    [ "$(installed_programs "$prefix")" = "$prefix/lib64/gpucoll" ] || { echo "found in $(installed_programs "$prefix")"; return 1; }
    mkdir -p "$package/scripts" && cp "$prefix"/lib64/gpucoll/bench/*.py "$package/scripts/" &&
        PATH=$prefix/bin:$PATH PYTHONPATH=$package/scripts python3 -c 'import running; print(running.find_program(None))' |
        grep "^$prefix/bin/../lib64/gpucoll/bench/bench_compare$"
}

# environment_file PREFIX
environment_file() {
    echo ". '$1/env.sh'"
}

# environment_module PREFIX
environment_module() {
    local tcl lmod
    tcl=$(find /usr/lib /usr/share -name modulecmd.tcl 2>/dev/null | head -n 1)
    lmod=$(find /usr/share/lmod -path '*/libexec/lmod' 2>/dev/null | head -n 1)
    export MODULEPATH=$1/share/modulefiles
    if [ -n "$tcl" ]; then
        tclsh "$tcl" bash load "gpucoll/$version"
    else
        "$lmod" bash load "gpucoll/$version"
    fi
}

# libmpi_folder SAID WANTED: where mpicc names no folder of libraries, as an Open MPI's in /usr/lib, and ompi_info says that it is SAID, the
# environment file and the module set LD_LIBRARY_PATH to WANTED.
libmpi_folder() (
    ompi=$package/silent-ompi build=$package/silent prefix=$package/silent/prefix
    rm -rf "$build"
    mkdir -p "$prefix/lib/openmpi"
    pretended_ompi "$ompi" --showme:libdirs ""
    printf '#!/bin/sh\necho "path:libdir:%s"\n' "$1" >"$ompi/bin/ompi_info"
    chmod +x "$ompi/bin/ompi_info"
    cd "$build" && "$top/configure" --without-cuda --with-ompi="$ompi" --prefix="$prefix" &&
        make install-envDATA install-modulefileDATA || return 1
    unset LD_LIBRARY_PATH
    for loader in environment_file environment_module; do
        settings=$("$loader" "$prefix") &&
            found=$(env -i HOME="${HOME:-/}" PATH=/usr/bin:/bin bash -euc "$settings
                echo \"\${LD_LIBRARY_PATH:-}\"") || return 1
        [ "$found" = "$2" ] || { echo "$loader: LD_LIBRARY_PATH is '$found', not '$2'"; return 1; }
    done
)

# uninstalled DIR: nothing but directories is left.
uninstalled() {
    local left
    make -C "$package/build" uninstall || return 1
    left=$(find "$package/prefix" ! -type d)
    [ -z "$left" ] || { echo "make uninstall left: $left"; return 1; }
}

# What make made of kernels, too: distcheck, which looks at the rest again, builds without them.
cleaned() {
    local left
    make -C "$package/build" distclean || return 1
    left=$(find "$package/build" -type f)
    [ -z "$left" ] || { echo "make distclean left: $left"; return 1; }
}

# An Open MPI that was installed without development headers, made of PREFIX by hiding them.
hide_headers() {
    local prefix=$1 bare=$2 name
    rm -rf "$bare"
    mkdir -p "$bare/include"
    for name in bin lib share etc; do
        ln -s "$prefix/$name" "$bare/$name"
    done
    cp "$prefix"/include/mpi*.h "$bare/include/"
}

# build_with_source PREFIX TREE
build_with_source() (
    rm -rf "$package/with-source"
    mkdir -p "$package/with-source"
    hide_headers "$1" "$package/bare" && cd "$package/with-source" || return 1
    export OPAL_PREFIX=$package/bare
    if "$top/configure" --without-cuda --with-ompi="$OPAL_PREFIX" >errors 2>&1; then
        echo "configure finds development headers where there are none"
        return 1
    fi
    grep 'without its development headers' errors &&
        "$top/configure" --without-cuda --enable-werror --with-ompi="$OPAL_PREFIX" --with-ompi-src="$2" &&
        make -j"$(jobs_here)" &&
        "$OPAL_PREFIX/bin/mpirun" -n 2 --oversubscribe --mca mca_base_component_path "$PWD/ompi/mca/coll/gpucoll/.libs:SYSTEM_DEFAULT" \
            --mca coll gpucoll --mca coll_gpucoll_accelerator host ./gpucoll_demo --max 64K --iterations 20
)

source_tree_tests() {
    local prefix status=0
    prefix=$("$top/contrib/ompi5") || status=$?
    if [ "$status" -ne 0 ] || [ ! -d "$prefix.source" ]; then
        record SKIP "--with-ompi-src" "there is no configured source tree of an Open MPI here"
        return
    fi
    attempt "--with-ompi-src" logged "$logs/ompi-src.log" build_with_source "$prefix" "$prefix.source" || true
    local with=(--without-cuda --with-ompi-src="$prefix.source")
    [ "$("$prefix/bin/mpicc" --showme:version)" = "$(mpicc --showme:version)" ] ||
        expect_error "source tree of another version" "they must be"
}

installed_tests() {
    attempt "make install" logged "$logs/package-install.log" make -C "$package/build" install || return 0
    attempt "component in lib64" logged "$logs/component.log" component_is_found || true
    attempt "benchmarks in lib64" logged "$logs/programs.log" programs_are_found || true
    attempt "libraries that configure was told of" logged "$logs/own.log" own_libraries_are_loaded || true
    attempt "environment file" logged "$logs/env.log" use_installed environment_file "$package/prefix" || true
    if has_package lmod || need_packages environment-modules tcl; then
        attempt "environment module" logged "$logs/module.log" use_installed environment_module "$package/prefix" || true
        attempt "settings keep PATH's order, and are none without the component" logged "$logs/settings.log" settings_keep_order || true
        attempt "libmpi in a folder that mpicc does not name" logged "$logs/libmpi-named.log" libmpi_folder /opt/ompi/lib /opt/ompi/lib || true
        attempt "libmpi in a folder that nobody names" logged "$logs/libmpi-unnamed.log" libmpi_folder "" "" || true
        attempt "libmpi in a folder of the system" logged "$logs/libmpi-system.log" libmpi_folder /usr/lib64 "" || true
    else
        record SKIP "environment module" "neither Environment Modules nor Lmod could be installed"
    fi
    attempt "make uninstall leaves nothing" logged "$logs/package-uninstall.log" uninstalled || true
    attempt "make distclean leaves nothing" logged "$logs/package-distclean.log" cleaned || true
}

part_package() {
    local dir=$top/_build/mpi version distcheck='--without-cuda CXXFLAGS=-O2' longest='*/*:cluster_*:timeout.*:death.*:warmup.*:exchange_sizes.*:allreduce_sizes.*'
    package=$top/_build/package
    local -a own=(hwloc)
    ! pkg-config --exists ucx || own+=(ucx)
    mkdir -p "$package"
    chmod -R u+w "$package"
    build_mpi || { record FAIL "package" "does not build"; return; }
    version=$(made_with "$dir" VERSION)
    configure_errors
    attempt "--help of the scripts" logged "$logs/help.log" scripts_help || true
    rm -f "$dir"/gpucoll-*.tar.gz
    attempt "make dist" logged "$logs/dist.log" make -C "$dir" dist || return 0
    unpack_tarball "$dir"
    attempt "tarball has every file" logged "$logs/whole.log" tarball_is_whole || true
    attempt "recipes are of this version" logged "$logs/recipes.log" recipes_are_of_this_version || true
    if attempt "tarball builds without autotools, for every architecture" logged "$logs/tarball.log" \
        without_autotools build_tarball; then
        installed_tests
    fi
    source_tree_tests
    # The unit tests have run in three builds, and the tarball has their files. For a release they are compiled once more, as everybody does; without
    # the sweeps over ranks, operators and hosts (cases with a `/`) and the longest others.
    [ "$release" = yes ] || distcheck+=' --without-gtest'
    attempt "make distcheck" logged "$logs/distcheck.log" env GTEST_FILTER="-$longest" make -C "$dir" -j"$(jobs_here)" distcheck \
        DISTCHECK_CONFIGURE_FLAGS="$distcheck" || true
}
