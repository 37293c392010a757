# The CUDA compiler and driver header. gpucoll links no CUDA library: kernels are compiled to fatbins and embedded, and
# libcuda is loaded at run time, so only nvcc and cuda.h are needed here.
AC_DEFUN([GPUCOLL_CHECK_CUDA], [
    AC_ARG_WITH([cuda],
        [AS_HELP_STRING([--with-cuda=DIR],
            [CUDA toolkit (default: nvcc on PATH, /usr/local/cuda, ./.deps/cuda); --without-cuda: host accelerator only])],
        [], [with_cuda=yes])
    AC_ARG_WITH([cuda-arch],
        [AS_HELP_STRING([--with-cuda-arch=LIST],
            [architectures to compile kernels for, such as 80,90 (default: the oldest nvcc knows from 70 on, 80, 90, the first of
             each later generation); PTX of the last is added])],
        [], [with_cuda_arch=default])
    AC_ARG_VAR([NVCC], [CUDA compiler])

    gpucoll_have_cuda=no
    gpucoll_cuda_summary="no (host accelerator only)"
    AS_IF([test "x$with_cuda" != xno], [
        GPUCOLL_FIND_NVCC
        GPUCOLL_FIND_CUDA_H
        GPUCOLL_CHOOSE_CUDA_ARCH
        GPUCOLL_TRY_NVCC
        gpucoll_have_cuda=yes
        gpucoll_cuda_summary="$NVCC for $gpucoll_cuda_arch"
        AC_DEFINE([HAVE_CUDA_KERNELS], [1], [Define to 1 if the CUDA kernels are built and embedded.])
    ])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([NVCC_GENCODE])
    AM_CONDITIONAL([CUDA], [test $gpucoll_have_cuda = yes])
])

AC_DEFUN([GPUCOLL_FIND_NVCC], [
    # A name on PATH serves as well.
    gpucoll_named=`command -v "$NVCC"`
    AS_IF([test "x$gpucoll_named" != x], [NVCC=$gpucoll_named])
    AS_IF([test "x$NVCC" != x && test "x$with_cuda" != xyes &&
           test "x`readlink -f "$NVCC"`" != "x`readlink -f "$with_cuda/bin/nvcc"`"],
        [AC_MSG_ERROR([NVCC=$NVCC is not of --with-cuda=$with_cuda: leave one of the two out])])
    AS_IF([test "x$NVCC" = x], [
        AS_IF([test "x$with_cuda" != xyes],
            [AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])],
            [gpucoll_deps=`cd "$srcdir" && pwd`/.deps/cuda/bin
             AC_PATH_PROG([NVCC], [nvcc], [], [$PATH$PATH_SEPARATOR/usr/local/cuda/bin$PATH_SEPARATOR$gpucoll_deps])])])
    AS_IF([test "x$NVCC" = x], [
        AS_IF([test "x$with_cuda" = xyes], [gpucoll_where="on PATH and in /usr/local/cuda/bin"],
              [gpucoll_where="in $with_cuda/bin"])
        GPUCOLL_MISSING([The CUDA compiler nvcc was not found $gpucoll_where], [nvidia-cuda-toolkit (or cuda-toolkit from NVIDIA's repository)],
            [cuda-toolkit (from NVIDIA's repository)],
            [contrib/quickstart, which fetches one into ./.deps; or --with-cuda=DIR;
                     or --without-cuda for a build that knows the host accelerator only])])
])

AC_DEFUN([GPUCOLL_FIND_CUDA_H], [
    AC_MSG_CHECKING([for cuda.h])
    gpucoll_nvcc_real=`readlink -f "$NVCC"`
    CUDA_CPPFLAGS=missing
    for gpucoll_dir in "`dirname "$NVCC"`/../include" "`dirname "$gpucoll_nvcc_real"`/../include" /usr/include; do
        AS_IF([test "$CUDA_CPPFLAGS" = missing && test -f "$gpucoll_dir/cuda.h"],
              [CUDA_CPPFLAGS="-isystem `cd "$gpucoll_dir" && pwd`"
               gpucoll_cuda_version=`$SED -n 's/^#define CUDA_VERSION \(@<:@0-9@:>@*\).*/\1/p' "$gpucoll_dir/cuda.h"`])
    done
    # Naming the compiler's own directory would reorder its search path.
    AS_IF([test "$CUDA_CPPFLAGS" = "-isystem /usr/include"], [CUDA_CPPFLAGS=])
    AC_MSG_RESULT([${CUDA_CPPFLAGS:-/usr/include}])
    AS_IF([test "$CUDA_CPPFLAGS" = missing],
          [GPUCOLL_MISSING([cuda.h was not found beside $NVCC], [nvidia-cuda-dev], [cuda-cudart-devel], [--with-cuda=DIR])])
    # Clusters of CTAs came with 11.8.
    AS_IF([test "${gpucoll_cuda_version:-0}" -lt 11080],
          [GPUCOLL_MISSING([The CUDA toolkit of $NVCC is older than 11.8 (CUDA_VERSION ${gpucoll_cuda_version:-unknown} in cuda.h)],
              [nvidia-cuda-toolkit (or cuda-toolkit from NVIDIA's repository)], [cuda-toolkit (from NVIDIA's repository)],
              [--with-cuda=DIR of a newer one, or --without-cuda])])
])

# Code for one architecture runs on later ones of the same generation, so the first of each generation serves all.
AC_DEFUN([GPUCOLL_CHOOSE_CUDA_ARCH], [
    gpucoll_cuda_arch=`echo "$with_cuda_arch" | $SED 's/sm_//g; s/,/ /g'`
    AS_CASE([`echo $gpucoll_cuda_arch`], [""|yes|no],
        [AC_MSG_ERROR([--with-cuda-arch needs a list of architectures, such as --with-cuda-arch=80,90])])
    AC_MSG_CHECKING([for CUDA architectures])
    gpucoll_known=`"$NVCC" --list-gpu-code 2>/dev/null | $SED -n 's/^sm_\(@<:@0-9@:>@*\)$/\1/p' | sort -n | tr '\n' ' '`
    AS_IF([test "x$gpucoll_known" = x],
          [AC_MSG_ERROR([$NVCC --list-gpu-code names no architectures; gpucoll needs the CUDA toolkit 11.8 or newer])])
    AS_IF([test "x$with_cuda_arch" = xdefault], [
        gpucoll_cuda_arch=`for n in $gpucoll_known; do test $n -ge 70 && echo $n; done |
            $AWK '{ generation = int($[]1 / 10) } !(generation in seen) { seen@<:@generation@:>@ = 1; printf "%s ", $[]1 }'`
    ])
    NVCC_GENCODE=
    for gpucoll_arch in $gpucoll_cuda_arch; do
        AS_CASE([" $gpucoll_known "], [*" $gpucoll_arch "*], [],
            [AC_MSG_ERROR([$NVCC does not know architecture $gpucoll_arch; it knows: $gpucoll_known])])
        NVCC_GENCODE="$NVCC_GENCODE -gencode=arch=compute_$gpucoll_arch,code=sm_$gpucoll_arch"
    done
    NVCC_GENCODE="$NVCC_GENCODE -gencode=arch=compute_$gpucoll_arch,code=compute_$gpucoll_arch"
    gpucoll_cuda_arch=`echo $gpucoll_cuda_arch`
    AC_MSG_RESULT([$gpucoll_cuda_arch])
])

AC_DEFUN([GPUCOLL_TRY_NVCC], [
    AC_MSG_CHECKING([whether nvcc compiles C++17 kernels])
    cat >conftest.cu <<'_GPUCOLL_EOF'
#include <cuda_runtime.h>
#include <type_traits>
static_assert(std::is_same_v<int, int>, "");
extern "C" __global__ void kernel(int *value) { *value = threadIdx.x; }
_GPUCOLL_EOF
    AS_IF([AC_TRY_COMMAND(["$NVCC" -std=c++17 -arch=sm_$gpucoll_arch -fatbin -o conftest.fatbin conftest.cu >&AS_MESSAGE_LOG_FD 2>&1])],
          [AC_MSG_RESULT([yes])],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([$NVCC cannot compile a small kernel: see config.log. Often the host compiler is too new for
    this CUDA toolkit; name an older one with NVCC_PREPEND_FLAGS='-ccbin g++-12', or use a newer toolkit])])
    rm -f conftest.cu conftest.fatbin
])
