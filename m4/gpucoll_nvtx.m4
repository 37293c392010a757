# NVTX, the annotations that profilers show: headers only, of the CUDA toolkit or of a system package. Without them there
# are no ranges.
AC_DEFUN([GPUCOLL_CHECK_NVTX], [
    AC_ARG_WITH([nvtx],
        [AS_HELP_STRING([--with-nvtx=DIR],
            [folder that holds nvtx3/nvToolsExt.h (default: the CUDA toolkit's, /usr/local/cuda/include, the compiler's);
             --without-nvtx: no ranges for profilers])],
        [], [with_nvtx=auto])
    NVTX_CPPFLAGS=
    gpucoll_have_nvtx=no
    AS_IF([test "x$with_nvtx" != xno], [
        AC_MSG_CHECKING([for nvtx3/nvToolsExt.h])
        AS_CASE([$with_nvtx],
            [auto|yes], [gpucoll_nvtx_dirs="`echo "$CUDA_CPPFLAGS" | $SED -n 's/^-isystem //p'` /usr/local/cuda/include /usr/include"],
            [gpucoll_nvtx_dirs=$with_nvtx])
        for gpucoll_dir in $gpucoll_nvtx_dirs; do
            AS_IF([test $gpucoll_have_nvtx = no && test -f "$gpucoll_dir/nvtx3/nvToolsExt.h"],
                  [gpucoll_have_nvtx=$gpucoll_dir])
        done
        AC_MSG_RESULT([$gpucoll_have_nvtx])
        AS_IF([test $gpucoll_have_nvtx = no && test "x$with_nvtx" != xauto],
              [AC_MSG_ERROR([nvtx3/nvToolsExt.h was not found in $gpucoll_nvtx_dirs: name the folder above nvtx3, or --without-nvtx])])
    ])
    AS_IF([test $gpucoll_have_nvtx != no], [
        AC_DEFINE([HAVE_NVTX], [1], [Define to 1 if ranges for profilers are built in.])
        # Naming the compiler's own directory would reorder its search path.
        AS_IF([test $gpucoll_have_nvtx != /usr/include], [NVTX_CPPFLAGS="-isystem $gpucoll_have_nvtx"])])
    gpucoll_nvtx_summary=$gpucoll_have_nvtx
    AC_SUBST([NVTX_CPPFLAGS])
    AM_CONDITIONAL([NVTX], [test $gpucoll_have_nvtx != no])
])
