# GPUCOLL_MISSING(WHAT, DEBIAN-PACKAGE, RHEL-PACKAGE, [ELSE])
# Stops configure, naming what to install; RHEL-PACKAGE is empty where there is none.
AC_DEFUN([GPUCOLL_MISSING], [AC_MSG_ERROR([$1.
    Debian, Ubuntu:  apt-get install $2
m4_ifval([$3], [    RHEL, Fedora:    dnf install $3
])m4_ifval([$4], [    Or:              $4
])])])

# GPUCOLL_CHECK_FOLDER(OPTION, FOLDER)
# Where the installation goes is written into makefiles, shell, Tcl and Open MPI's lists of folders.
AC_DEFUN([GPUCOLL_CHECK_FOLDER], [
    AS_CASE([$2], [*" "*|*"	"*|*"'"*|*\"*|*\`*|*\\*|*"|"*|*"&"*|*";"*|*":"*|*"@%:@"*],
        [AC_MSG_ERROR([$1=$2: gpucoll cannot be installed in a folder whose name has spaces, quotes, backslashes or any of | & ; : @%:@])])
])

AC_DEFUN([GPUCOLL_CHECK_FOLDERS], [
    for gpucoll_option in prefix exec-prefix bindir libdir libexecdir datarootdir datadir docdir; do
        gpucoll_variable=`echo $gpucoll_option | tr - _`
        AS_VAR_COPY([gpucoll_value], [$gpucoll_variable])
        GPUCOLL_CHECK_FOLDER([--$gpucoll_option], [$gpucoll_value])
    done
])

# GPUCOLL_IF_SYSTEM_FOLDER(FOLDER, IF-SO, IF-NOT): does the loader look for libraries in FOLDER by itself, on every Linux of its kind?
AC_DEFUN([GPUCOLL_IF_SYSTEM_FOLDER], [
    AS_CASE([$1], [/lib|/lib64|/lib/*-linux-gnu|/usr/lib|/usr/lib64|/usr/lib/*-linux-gnu], [:
        $2], [:
        $3])
])

# Before AC_PROG_CC, which names no package.
AC_DEFUN([GPUCOLL_FIND_COMPILERS], [
    AS_IF([test "x$CC" = x], [
        AC_CHECK_TOOLS([gpucoll_any_cc], [gcc cc clang])
        AS_IF([test "x$gpucoll_any_cc" = x], [GPUCOLL_MISSING([No C compiler was found on PATH], [gcc make], [gcc make])])])
    AS_IF([test "x$CXX" = x], [
        AC_CHECK_TOOLS([gpucoll_any_cxx], [g++ c++ clang++])
        AS_IF([test "x$gpucoll_any_cxx" = x], [GPUCOLL_MISSING([No C++ compiler was found on PATH], [g++], [gcc-c++])])])
])

AC_DEFUN([GPUCOLL_CHECK_PKG_CONFIG], [
    AS_IF([test "x$PKG_CONFIG$HWLOC_LIBS" = x],
          [GPUCOLL_MISSING([pkg-config 0.29 or newer was not found], [pkg-config], [pkgconf-pkg-config])])
])

# The host compilers: C17 and C++17, and the flags every object is compiled with.
AC_DEFUN([GPUCOLL_CHECK_COMPILERS], [
    GPUCOLL_TRY_FLAG([C], [-std=gnu17], [],
        [GPUCOLL_MISSING([$CC does not accept -std=gnu17; gpucoll needs gcc 8 or newer], [gcc], [gcc])])
    GPUCOLL_TRY_FLAG([C++], [-std=gnu++17], [],
        [GPUCOLL_MISSING([$CXX does not accept -std=gnu++17; the tests need g++ 8 or newer], [g++], [gcc-c++])])
    # Without fused instructions, which a build for its own machine (-march=native) may have: results are the same bits in every build.
    GPUCOLL_CFLAGS="-std=gnu17 -ffp-contract=off -Wall -Wextra"
    GPUCOLL_CXXFLAGS="-std=gnu++17 -ffp-contract=off -Wall -Wextra"
    AC_SUBST([GPUCOLL_CFLAGS])
    AC_SUBST([GPUCOLL_CXXFLAGS])
    AC_SEARCH_LIBS([dlopen], [dl])
    AC_SEARCH_LIBS([pthread_create], [pthread])
    AC_SEARCH_LIBS([log2], [m])
])

# GPUCOLL_TRY_FLAG(LANGUAGE, FLAGS, IF-ACCEPTED, IF-NOT): compile and link.
AC_DEFUN([GPUCOLL_TRY_FLAG], [
    AC_LANG_PUSH([$1])
    gpucoll_save_CFLAGS=$CFLAGS; gpucoll_save_CXXFLAGS=$CXXFLAGS
    CFLAGS="$CFLAGS $2"; CXXFLAGS="$CXXFLAGS $2"
    AC_MSG_CHECKING([whether the $1 compiler accepts $2])
    AC_LINK_IFELSE([AC_LANG_PROGRAM()], [gpucoll_flag_ok=yes], [gpucoll_flag_ok=no])
    CFLAGS=$gpucoll_save_CFLAGS; CXXFLAGS=$gpucoll_save_CXXFLAGS
    AC_LANG_POP([$1])
    AC_MSG_RESULT([$gpucoll_flag_ok])
    AS_IF([test $gpucoll_flag_ok = yes], [:
        $3], [:
        $4])
])

AC_DEFUN([GPUCOLL_ENABLE_WERROR], [
    AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [make compiler warnings errors])], [], [enable_werror=no])
    AS_IF([test "x$enable_werror" = xyes], [
        GPUCOLL_CFLAGS="$GPUCOLL_CFLAGS -Werror"
        GPUCOLL_CXXFLAGS="$GPUCOLL_CXXFLAGS -Werror"
        GPUCOLL_NVCCFLAGS="-Werror all-warnings"
    ])
    AC_SUBST([GPUCOLL_NVCCFLAGS])
])

# Sanitizers reach into every object, so they go with --disable-mpi: libmpi is not instrumented.
AC_DEFUN([GPUCOLL_ENABLE_SANITIZERS], [
    AC_ARG_ENABLE([sanitizers],
        [AS_HELP_STRING([--enable-sanitizers=LIST],
            [compile with -fsanitize=LIST, such as address,undefined or thread; goes with --disable-mpi])],
        [], [enable_sanitizers=no])
    AS_CASE([$enable_sanitizers],
        [no], [],
        [yes], [AC_MSG_ERROR([--enable-sanitizers needs a list, such as --enable-sanitizers=address,undefined])],
        [GPUCOLL_SANITIZER_FLAGS="-fsanitize=$enable_sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
         GPUCOLL_TRY_FLAG([C], [$GPUCOLL_SANITIZER_FLAGS], [],
             [GPUCOLL_MISSING([$CC cannot link with -fsanitize=$enable_sanitizers], [libgcc-N-dev of your gcc N],
                              [libasan libubsan libtsan])])])
    AC_SUBST([GPUCOLL_SANITIZER_FLAGS])
])

# `make distcheck` builds for the same Open MPI, with the same toolkit, as this build.
AC_DEFUN([GPUCOLL_DISTCHECK], [
    GPUCOLL_DISTCHECK_FLAGS=
    for gpucoll_option in enable_mpi enable_werror with_ompi with_ompi_src with_cuda with_cuda_arch with_hwloc with_ucx with_nvtx; do
        AS_VAR_COPY([gpucoll_value], [$gpucoll_option])
        AS_CASE([$gpucoll_value], [auto|default|""], [], [*" "*],
            [AC_MSG_WARN([make distcheck will not use $gpucoll_option=$gpucoll_value: it has a space])],
            [gpucoll_option=`echo $gpucoll_option | $SED 's/_/-/g'`
             GPUCOLL_DISTCHECK_FLAGS="$GPUCOLL_DISTCHECK_FLAGS --$gpucoll_option=$gpucoll_value"])
    done
    AC_SUBST([GPUCOLL_DISTCHECK_FLAGS])
])

AC_DEFUN([GPUCOLL_SUMMARY], [
    AC_MSG_NOTICE([
  gpucoll $PACKAGE_VERSION
    prefix            $prefix
    Open MPI          $gpucoll_ompi_summary
    Fortran test      $gpucoll_fortran_summary
    CUDA              $gpucoll_cuda_summary
    UCX               $gpucoll_ucx_summary
    NVTX              $gpucoll_nvtx_summary
    hwloc             $gpucoll_hwloc_summary
    GoogleTest        $gpucoll_gtest_summary
    Google Benchmark  $gpucoll_benchmark_summary
    sanitizers        $enable_sanitizers
  Next: make && make check && make install])
])
