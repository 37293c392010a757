# The Open MPI to build for: its compiler wrapper, version, and the internal headers that components are written against.
AC_DEFUN([GPUCOLL_CHECK_OMPI], [
    AC_ARG_ENABLE([mpi],
        [AS_HELP_STRING([--disable-mpi], [build the engine and its tests only, without the Open MPI component])],
        [], [enable_mpi=yes])
    AC_ARG_WITH([ompi],
        [AS_HELP_STRING([--with-ompi=PREFIX], [Open MPI 4.1.x or 5.0.x to build for (default: mpicc on PATH)])],
        [], [with_ompi=yes])
    AC_ARG_WITH([ompi-src],
        [AS_HELP_STRING([--with-ompi-src=TREE],
            [configured source tree of the same Open MPI version: supplies the development headers where they are not installed])],
        [], [with_ompi_src=no])
    AC_ARG_WITH([ompi-plugin-dir],
        [AS_HELP_STRING([--with-ompi-plugin-dir@<:@=DIR@:>@],
            [install the component into DIR, by default Open MPI's own component directory, instead of LIBDIR/openmpi])],
        [], [with_ompi_plugin_dir=no])

    AC_ARG_VAR([MPIF90], [Open MPI's Fortran compiler, for a test; "no" leaves the test out (default: mpif90 beside mpicc)])
    AC_ARG_VAR([FCFLAGS], [flags for it])
    gpucoll_ompi_summary="no (engine only)"
    gpucoll_fortran_summary=no
    ompiplugindir='${libdir}/openmpi'
    AS_IF([test "x$enable_mpi" != xno], [
        GPUCOLL_FIND_MPICC
        GPUCOLL_OMPI_VERSION
        GPUCOLL_OMPI_FLAGS
        GPUCOLL_OMPI_LIBDIR
        GPUCOLL_OMPI_HEADERS
        GPUCOLL_OMPI_PLUGIN_DIR
        GPUCOLL_OMPI_FORTRAN
        gpucoll_ompi_summary="$OMPI_VERSION ($MPICC)"
    ])
    AC_SUBST([ompiplugindir])
    AC_SUBST([MPICC])
    AC_SUBST([MPIRUN])
    AC_SUBST([MPI_CFLAGS])
    AC_SUBST([MPI_LIBS])
    AC_SUBST([OMPI_CPPFLAGS])
    AC_SUBST([OMPI_LIBS])
    AC_SUBST([OMPI_VERSION])
    AC_SUBST([OMPI_BINDIR])
    AC_SUBST([OMPI_LIBDIR])
    AM_CONDITIONAL([MPI], [test "x$enable_mpi" != xno])
    AM_CONDITIONAL([MPIF90], [test "x$gpucoll_fortran_summary" != xno])
])

AC_DEFUN([GPUCOLL_FIND_MPICC], [
    AS_IF([test "x$with_ompi" = xno], [AC_MSG_ERROR([--without-ompi is spelled --disable-mpi])])
    # Where it is goes into env.sh and the module file, which are read in other folders.
    AS_CASE([$with_ompi], [yes|/*], [],
        [gpucoll_ompi_prefix=`cd "$with_ompi" 2>/dev/null && pwd`
         AS_IF([test -n "$gpucoll_ompi_prefix"], [with_ompi=$gpucoll_ompi_prefix],
             [AC_MSG_ERROR([--with-ompi=$with_ompi: no such folder])])])
    AS_IF([test "x$with_ompi" = xyes], [gpucoll_mpi_path=$PATH], [gpucoll_mpi_path=$with_ompi/bin])
    # Distributions let several MPIs provide mpicc: take the first that is Open MPI's.
    AC_CACHE_CHECK([for Open MPI's mpicc], [ac_cv_path_MPICC], [
        AC_PATH_PROGS_FEATURE_CHECK([MPICC], [mpicc mpicc.openmpi],
            [AS_IF(["$ac_path_MPICC" --showme:version 2>/dev/null | $GREP 'Open MPI' >/dev/null],
                   [ac_cv_path_MPICC=$ac_path_MPICC ac_path_MPICC_found=:])],
            [ac_cv_path_MPICC=no], [$gpucoll_mpi_path])])
    MPICC=$ac_cv_path_MPICC
    AS_IF([test "x$MPICC" = xno], [
        AS_IF([test "x$with_ompi" = xyes],
            [GPUCOLL_MISSING([Open MPI's mpicc was not found on PATH], [libopenmpi-dev openmpi-bin], [openmpi-devel],
                 [--with-ompi=PREFIX, or --disable-mpi for the engine alone])],
            [AC_MSG_ERROR([$with_ompi/bin/mpicc was not found or is not Open MPI's: --with-ompi takes the prefix Open MPI was
    installed with])])])
])

AC_DEFUN([GPUCOLL_OMPI_VERSION], [
    AC_MSG_CHECKING([for Open MPI's version])
    OMPI_VERSION=`"$MPICC" --showme:version 2>/dev/null | $SED -n 's/.*Open MPI v*\(@<:@0-9@:>@*\.@<:@^ @:>@*\).*/\1/p'`
    AC_MSG_RESULT([$OMPI_VERSION])
    AS_CASE([$OMPI_VERSION],
        [4.1.*|5.0.*], [],
        [AC_MSG_ERROR([$MPICC belongs to Open MPI $OMPI_VERSION; gpucoll supports 4.1.x and 5.0.x.
    Name another one with --with-ompi=PREFIX])])
])

AC_DEFUN([GPUCOLL_OMPI_FLAGS], [
    OMPI_BINDIR=`dirname "$MPICC"`
    MPI_CFLAGS=`"$MPICC" --showme:compile`
    MPI_LIBS=`"$MPICC" --showme:link`
    AC_MSG_CHECKING([for mpirun])
    MPIRUN=`ls "$OMPI_BINDIR/mpirun.openmpi" "$OMPI_BINDIR/mpirun" 2>/dev/null | head -n 1`
    AC_MSG_RESULT([${MPIRUN:-no}])
    AS_IF([test "x$MPIRUN" = x],
          [GPUCOLL_MISSING([mpirun was not found beside $MPICC], [openmpi-bin], [openmpi])])
    # Components name libmpi and libopen-pal, so that they load also where a program loaded libmpi privately (RTLD_LOCAL).
    OMPI_LIBS="$MPI_LIBS -lopen-pal"
    gpucoll_save_LIBS=$LIBS
    LIBS="$OMPI_LIBS $LIBS"
    AC_MSG_CHECKING([whether programs link with libmpi and libopen-pal])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[int opal_progress(void); int MPI_Initialized(int *);]],
                                    [[int set; MPI_Initialized(&set); opal_progress();]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([a program does not link with "$OMPI_LIBS": see config.log])])
    LIBS=$gpucoll_save_LIBS
])

# Where the loader has to be told to look for libmpi; empty if it looks there by itself, or if nobody knows. mpicc is asked last: it
# names no folder that compilers search anyway, and may name other libraries' before Open MPI's.
AC_DEFUN([GPUCOLL_OMPI_LIBDIR], [
    AC_MSG_CHECKING([where the loader has to be told to look for libmpi])
    OMPI_LIBDIR=`"$OMPI_BINDIR/ompi_info" --path libdir --parsable 2>/dev/null | $SED -n 's/^path:libdir://p'`
    AS_IF([test "x$OMPI_LIBDIR" = x], [OMPI_LIBDIR=`"$MPICC" --showme:libdirs 2>/dev/null | $SED 's/ .*//'`])
    # Debian's is a folder of links to the system's.
    gpucoll_real=`readlink -f "$OMPI_LIBDIR/libmpi.so"`
    gpucoll_real=`dirname "$gpucoll_real"`
    GPUCOLL_IF_SYSTEM_FOLDER([$OMPI_LIBDIR], [OMPI_LIBDIR=])
    GPUCOLL_IF_SYSTEM_FOLDER([$gpucoll_real], [OMPI_LIBDIR=])
    AC_MSG_RESULT([${OMPI_LIBDIR:-nowhere}])
])

AC_DEFUN([GPUCOLL_OMPI_HEADERS], [
    AS_IF([test "x$with_ompi_src" != xno], [GPUCOLL_OMPI_SRC_FLAGS], [GPUCOLL_OMPI_INSTALLED_FLAGS])
    # Last: files that Open MPI's own headers include but that are not installed (ompi/shim/README.md).
    OMPI_CPPFLAGS="$OMPI_CPPFLAGS -I`cd "$srcdir" && pwd`/ompi/shim"
    # Open MPI 5 reaches PMIx's and libevent's headers, which may be packages of their own.
    gpucoll_outside=`$PKG_CONFIG --cflags-only-I pmix 2>/dev/null` || gpucoll_outside=
    AC_MSG_CHECKING([for Open MPI's development headers])
    gpucoll_headers=no
    for gpucoll_more in "" "$gpucoll_outside"; do
        AS_IF([test $gpucoll_headers = no], [GPUCOLL_TRY_OMPI_HEADERS([$OMPI_CPPFLAGS $gpucoll_more])])
    done
    AC_MSG_RESULT([$gpucoll_headers])
    AS_IF([test $gpucoll_headers = no], [
        AS_IF([test "x$with_ompi_src" != xno],
            [AC_MSG_ERROR([Open MPI's internal headers in $with_ompi_src do not compile: see config.log. The tree must be one in which
    Open MPI's configure was run, and of version $OMPI_VERSION])],
            [GPUCOLL_MISSING([Open MPI $OMPI_VERSION was installed without its development headers (opal_config.h, ompi/mca/coll/coll.h), or
    the headers they include are missing: see config.log], [libopenmpi-dev libhwloc-dev libpmix-dev libevent-dev], [],
                [--with-ompi-src=TREE, a source tree of Open MPI $OMPI_VERSION in which configure was run])])])
])

AC_DEFUN([GPUCOLL_TRY_OMPI_HEADERS], [
    gpucoll_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $1"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include "ompi_config.h"
#include "opal/runtime/opal_progress.h"
#include "ompi/communicator/communicator.h"
#include "ompi/op/op.h"
#include "ompi/request/request.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/coll/base/base.h"]], [[return OMPI_MAJOR_VERSION == 0;]])],
        [gpucoll_headers=yes OMPI_CPPFLAGS="$1"])
    CPPFLAGS=$gpucoll_save_CPPFLAGS
])

# Debian nests include/openmpi in a directory of its own, others put it under PREFIX/include: mpicc knows which.
AC_DEFUN([GPUCOLL_OMPI_INSTALLED_FLAGS], [
    OMPI_CPPFLAGS=
    for gpucoll_dir in `"$MPICC" --showme:incdirs`; do
        for gpucoll_sub in "$gpucoll_dir/openmpi" "$gpucoll_dir"; do
            AS_CASE([" $OMPI_CPPFLAGS "], [*" -I$gpucoll_sub "*], [],
                [AS_IF([test -d "$gpucoll_sub"], [OMPI_CPPFLAGS="$OMPI_CPPFLAGS -I$gpucoll_sub"])])
        done
    done
])

AC_DEFUN([GPUCOLL_OMPI_SRC_FLAGS], [
    AS_IF([test -f "$with_ompi_src/opal/include/opal_config.h"], [],
        [AC_MSG_ERROR([--with-ompi-src=$with_ompi_src has no opal/include/opal_config.h: run Open MPI's configure there first,
    with the options of the installed Open MPI (ompi_info shows them)])])
    gpucoll_src=`cd "$with_ompi_src" && pwd`
    # The whole of it, with the rc1 of a release candidate, as mpicc says it.
    gpucoll_src_version=`$AWK '/define OPAL_MAJOR_VERSION / { major = $[]3 } /define OPAL_MINOR_VERSION / { minor = $[]3 }
        /define OPAL_RELEASE_VERSION / { release = $[]3 } /define OPAL_GREEK_VERSION / { greek = $[]3 }
        END { print major "." minor "." release greek }' "$gpucoll_src/opal/include/opal_config.h" | tr -d '"'`
    AS_IF([test "x$gpucoll_src_version" != "x$OMPI_VERSION"],
        [AC_MSG_ERROR([--with-ompi-src=$with_ompi_src is Open MPI $gpucoll_src_version, but $MPICC is Open MPI $OMPI_VERSION: they must be
    of the same version])])
    # hwloc and libevent that 4.1 brings along are there also if it was told to use others, which then have to be found by themselves.
    gpucoll_brought=
    AS_IF([grep opal/mca/hwloc/external/external.h "$gpucoll_src/opal/include/opal_config.h" >/dev/null], [],
        [gpucoll_brought="opal/mca/hwloc/hwloc*/hwloc/include"])
    AS_IF([grep opal/mca/event/external/external.h "$gpucoll_src/opal/include/opal_config.h" >/dev/null], [],
        [gpucoll_brought="$gpucoll_brought opal/mca/event/libevent*/libevent/include opal/mca/event/libevent*/libevent"])
    OMPI_CPPFLAGS=
    for gpucoll_dir in . opal/include ompi/include orte/include oshmem/include 3rd-party/openpmix/include \
        3rd-party/openpmix 3rd-party/libevent-*/include 3rd-party/libevent-* 3rd-party/hwloc-*/include \
        $gpucoll_brought opal/mca/pmix/pmix*/pmix/include; do
        for gpucoll_sub in "$gpucoll_src"/$gpucoll_dir; do
            AS_IF([test -d "$gpucoll_sub"], [OMPI_CPPFLAGS="$OMPI_CPPFLAGS -I$gpucoll_sub"])
        done
    done
    for gpucoll_dir in `"$MPICC" --showme:incdirs`; do
        OMPI_CPPFLAGS="$OMPI_CPPFLAGS -I$gpucoll_dir"
    done
])

AC_DEFUN([GPUCOLL_OMPI_PLUGIN_DIR], [
    AS_CASE([$with_ompi_plugin_dir],
        [no], [],
        [yes], [
            ompiplugindir=`"$OMPI_BINDIR/ompi_info" --path pkglibdir --parsable 2>/dev/null | $SED -n 's/^path:pkglibdir://p'`
            AS_IF([test -d "$ompiplugindir"], [],
                  [AC_MSG_ERROR([Open MPI's component directory was not found by $OMPI_BINDIR/ompi_info: name it with
    --with-ompi-plugin-dir=DIR])])],
        [/*|\@S|@*], [ompiplugindir=$with_ompi_plugin_dir],
        [AC_MSG_ERROR([--with-ompi-plugin-dir=$with_ompi_plugin_dir: it must be a whole path, beginning with /])])
    GPUCOLL_CHECK_FOLDER([--with-ompi-plugin-dir], [$ompiplugindir])
])

# For one of the tests. Open MPI may be without Fortran, and mpif90 without the compiler that it calls.
AC_DEFUN([GPUCOLL_OMPI_FORTRAN], [
    AS_IF([test "x$MPIF90" = x], [AC_PATH_PROGS([MPIF90], [mpif90.openmpi mpif90], [no], [$OMPI_BINDIR])])
    AS_IF([test "x$MPIF90" != xno], [
        : ${FCFLAGS="-g -O1"}
        AC_MSG_CHECKING([whether $MPIF90 makes programs that use mpi])
        AS_ECHO(["program conftest; use mpi; integer :: code; call MPI_Init(code); end program conftest"]) >conftest.f90
        AS_IF([$MPIF90 $FCFLAGS $GPUCOLL_SANITIZER_FLAGS $LDFLAGS -o conftest$EXEEXT conftest.f90 >&AS_MESSAGE_LOG_FD 2>&1],
            [gpucoll_fortran_summary=$MPIF90])
        rm -f conftest.f90 conftest.o conftest$EXEEXT
        AS_IF([test "x$gpucoll_fortran_summary" = xno], [AC_MSG_RESULT([no])], [AC_MSG_RESULT([yes])])
    ])
])
