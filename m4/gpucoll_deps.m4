# Libraries found by pkg-config. A --with-X=DIR puts DIR's .pc files first.

# GPUCOLL_USE_PREFIX(OPTION, DIR, HEADER, MODULE)
# A folder that was named and holds no such library is an error: pkg-config would go on to the system's without a word.
AC_DEFUN([GPUCOLL_USE_PREFIX], [
    AS_CASE([$2], [yes|no|auto], [], [
        AS_IF([test -f "$2/include/$3"], [], [AC_MSG_ERROR([--with-$1=$2: there is no $2/include/$3])])
        gpucoll_pc_path=
        gpucoll_pc_found=no
        for gpucoll_dir in "$2"/lib/pkgconfig "$2"/lib64/pkgconfig "$2"/share/pkgconfig "$2"/lib/*/pkgconfig; do
            gpucoll_pc_path="$gpucoll_pc_path$gpucoll_dir:"
            AS_IF([test -f "$gpucoll_dir/$4.pc"], [gpucoll_pc_found=yes])
        done
        AS_IF([test $gpucoll_pc_found = yes], [],
              [AC_MSG_ERROR([--with-$1=$2: there is no pkgconfig/$4.pc in its lib, lib64 and share])])
        PKG_CONFIG_PATH="$gpucoll_pc_path$PKG_CONFIG_PATH"
        export PKG_CONFIG_PATH])
])

# GPUCOLL_ADD_RUNPATH(VARIABLE, LIBS)
# Adds to VARIABLE what has libtool write the folders of the linker flags LIBS into the component and programs: else the loader takes the
# system's library of that name, or finds none. libtool does so by itself only where a .la file lies beside the library, which is seldom.
AC_DEFUN([GPUCOLL_ADD_RUNPATH], [
    for gpucoll_flag in $2; do
        AS_CASE([$gpucoll_flag], [-L/*], [
            gpucoll_dir=`echo "$gpucoll_flag" | $SED 's/^-L//'`
            GPUCOLL_IF_SYSTEM_FOLDER([$gpucoll_dir], [], [$1="$$1 -R$gpucoll_dir"])])
    done
])

# hwloc tells which GPUs, NICs and cores are near each other (core/topology).
AC_DEFUN([GPUCOLL_CHECK_HWLOC], [
    AC_ARG_WITH([hwloc],
        [AS_HELP_STRING([--with-hwloc=DIR], [hwloc's prefix; --without-hwloc: the machine's topology is known from files only])],
        [], [with_hwloc=yes])
    gpucoll_hwloc_summary="no (topology from files only)"
    HWLOC_RUNPATH=
    AS_IF([test "x$with_hwloc" != xno], [
        GPUCOLL_USE_PREFIX([hwloc], [$with_hwloc], [hwloc.h], [hwloc])
        PKG_CHECK_MODULES([HWLOC], [hwloc >= 2.0],
            [AC_DEFINE([HAVE_HWLOC], [1], [Define to 1 if hwloc was found.])],
            [GPUCOLL_MISSING([hwloc 2.0 or newer was not found], [libhwloc-dev], [hwloc-devel], [--with-hwloc=DIR])])
        GPUCOLL_ADD_RUNPATH([HWLOC_RUNPATH], [$HWLOC_LIBS])
        gpucoll_hwloc_summary=`$PKG_CONFIG --modversion hwloc`
    ])
    AC_SUBST([HWLOC_RUNPATH])
])

# UCX carries what goes between hosts (ucx_tl/rdma). Its headers are needed here; the library is found at run time, so that
# one build serves machines without it.
AC_DEFUN([GPUCOLL_CHECK_UCX], [
    AC_ARG_WITH([ucx],
        [AS_HELP_STRING([--with-ucx=DIR], [UCX's prefix (default: used if found); --without-ucx: no network, one host only])],
        [], [with_ucx=auto])
    gpucoll_have_ucx=no
    gpucoll_ucx_summary="no (one host only)"
    UCX_RUNPATH=
    GPUCOLL_USE_PREFIX([ucx], [$with_ucx], [ucp/api/ucp.h], [ucx])
    AS_IF([test "x$with_ucx" != xno], [
        PKG_CHECK_MODULES([UCX], [ucx >= 1.13], [gpucoll_have_ucx=yes], [gpucoll_have_ucx=no])])
    AS_IF([test $gpucoll_have_ucx = yes], [
        AC_DEFINE([HAVE_UCX], [1], [Define to 1 if UCX was found.])
        GPUCOLL_ADD_RUNPATH([UCX_RUNPATH], [$UCX_LIBS])
        gpucoll_ucx_summary=`$PKG_CONFIG --modversion ucx`
    ], [test "x$with_ucx" != xauto && test "x$with_ucx" != xno], [
        GPUCOLL_MISSING([UCX 1.13 or newer was not found], [libucx-dev], [ucx-devel], [--with-ucx=DIR])])
    AC_SUBST([UCX_RUNPATH])
    AM_CONDITIONAL([UCX], [test $gpucoll_have_ucx = yes])
])

# GPUCOLL_CHECK_TEST_MODULE(NAME, option, PREFIX, MODULE, DEBIAN, RHEL, HEADER)
# A library of tests or benches: used if found, an error only if asked for and missing.
AC_DEFUN([GPUCOLL_CHECK_TEST_MODULE], [
    AC_ARG_WITH([$2],
        [AS_HELP_STRING([--with-$2=DIR], [$1's prefix (default: used if found)])], [], [with_$2=auto])
    gpucoll_have_$2=no
    gpucoll_$2_summary=no
    GPUCOLL_USE_PREFIX([$2], [$with_$2], [$7], [$4])
    AS_IF([test "x$with_$2" != xno], [
        PKG_CHECK_MODULES([$3], [$4], [gpucoll_have_$2=yes], [gpucoll_have_$2=no])])
    AS_IF([test $gpucoll_have_$2 = yes],
          [GPUCOLL_ADD_RUNPATH([$3_LIBS], [$$3_LIBS])
           gpucoll_$2_summary=`$PKG_CONFIG --modversion $4`],
          [test "x$with_$2" != xauto && test "x$with_$2" != xno],
          [GPUCOLL_MISSING([$1 was not found], [$5], [$6], [--with-$2=DIR])])
    AM_CONDITIONAL([$3], [test $gpucoll_have_$2 = yes])
])

AC_DEFUN([GPUCOLL_CHECK_GTEST],
    [GPUCOLL_CHECK_TEST_MODULE([GoogleTest], [gtest], [GTEST], [gtest], [libgtest-dev], [gtest-devel],
                               [gtest/gtest.h])])
AC_DEFUN([GPUCOLL_CHECK_BENCHMARK],
    [GPUCOLL_CHECK_TEST_MODULE([Google Benchmark], [benchmark], [BENCHMARK], [benchmark], [libbenchmark-dev],
                               [google-benchmark-devel], [benchmark/benchmark.h])])
