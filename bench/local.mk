# The demo is for users and goes to bin; the comparison programs go beside each other where contrib/gpu_check finds them.
benchdir = $(pkglibexecdir)/bench
bench_PROGRAMS =
dist_bench_SCRIPTS = bench/side_by_side
dist_bench_DATA = bench/targets.txt
EXTRA_DIST += bench/README.md

if MPI
noinst_LTLIBRARIES += libbench.la
bin_PROGRAMS += gpucoll_demo
bench_PROGRAMS += bench_nccl
if BENCHMARK
bench_PROGRAMS += bench_allreduce
endif
endif

libbench_la_SOURCES = \
	bench/allreduce.c \
	bench/allreduce.h \
	bench/data.c \
	bench/data.h \
	bench/device.c \
	bench/device.h \
	bench/measure.c \
	bench/measure.h \
	bench/options.c \
	bench/options.h \
	bench/report.c \
	bench/report.h
libbench_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)

gpucoll_demo_SOURCES = bench/gpucoll_demo.c
gpucoll_demo_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
gpucoll_demo_LDADD = libbench.la $(MPI_LIBS)

bench_nccl_SOURCES = bench/bench_nccl.c bench/nccl_api.c bench/nccl_api.h
bench_nccl_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
bench_nccl_LDADD = libbench.la $(MPI_LIBS)

bench_allreduce_SOURCES = bench/bench_allreduce.cc
bench_allreduce_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) $(BENCHMARK_CFLAGS)
bench_allreduce_LDADD = libbench.la $(BENCHMARK_LIBS) $(MPI_LIBS)
