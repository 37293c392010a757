# The demo is for users and goes to bin; the comparison programs go beside each other where contrib/gpu_check finds them.
benchdir = $(pkglibexecdir)/bench
bench_PROGRAMS =
dist_bench_SCRIPTS = bench/bench_plans bench/check_results bench/first_calls bench/kernel_profile bench/plot.py bench/side_by_side
dist_bench_DATA = bench/figures.py bench/predicted.py bench/results_schema.json bench/running.py bench/targets.txt bench/targets-host-memory.txt \
	bench/targets-sockets.txt
dist_noinst_SCRIPTS += bench/readme_table
EXTRA_DIST += bench/README.md bench/results

# The figures of README.md, from bench/results.
update-readme:
	$(srcdir)/bench/readme_table

# The pictures beside bench/results that README.md shows; needs matplotlib.
plots:
	$(srcdir)/bench/plot.py
.PHONY: plots update-readme

if MPI
noinst_LTLIBRARIES += libbench.la
bin_PROGRAMS += gpucoll_demo
bench_PROGRAMS += bench_compare bench_first bench_idle
if BENCHMARK
bench_PROGRAMS += bench_mpi
endif
endif

libbench_la_SOURCES = \
	bench/case.c \
	bench/case.h \
	bench/check.c \
	bench/check.h \
	bench/coll.c \
	bench/coll.h \
	bench/compute.c \
	bench/compute.h \
	bench/data.c \
	bench/data.h \
	bench/device.c \
	bench/device.h \
	bench/library.c \
	bench/library.h \
	bench/measure.c \
	bench/measure.h \
	bench/options.c \
	bench/options.h \
	bench/overlap.c \
	bench/overlap.h \
	bench/report.c \
	bench/report.h \
	tools/cuda_symbols.c \
	tools/cuda_symbols.h
libbench_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
libbench_la_LIBADD = -lm

gpucoll_demo_SOURCES = bench/gpucoll_demo.c
gpucoll_demo_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
gpucoll_demo_LDADD = libbench.la $(MPI_LIBS)

bench_compare_SOURCES = \
	bench/bench_compare.c \
	bench/contender.c \
	bench/contender.h \
	bench/nccl_api.c \
	bench/nccl_api.h \
	bench/nccl_coll.c \
	bench/nccl_coll.h
bench_compare_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
bench_compare_LDADD = libbench.la $(MPI_LIBS)

bench_first_SOURCES = bench/bench_first.c
bench_first_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
bench_first_LDADD = libbench.la $(MPI_LIBS)

bench_idle_SOURCES = bench/bench_idle.c
bench_idle_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
bench_idle_LDADD = libbench.la $(MPI_LIBS)

bench_mpi_SOURCES = bench/bench_mpi.cc
bench_mpi_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) $(BENCHMARK_CFLAGS)
bench_mpi_LDADD = libbench.la $(BENCHMARK_LIBS) $(MPI_LIBS)
