# MPI programs that know nothing of gpucoll, and the table by which test/run_mpi.sh runs them on the host accelerator or on
# GPUs.
if MPI
check_LTLIBRARIES += libtestmpi.la
check_PROGRAMS += \
	test/mpi/allreduce \
	test/mpi/barriers \
	test/mpi/beside_nccl \
	test/mpi/cells \
	test/mpi/callbacks \
	test/mpi/collectives \
	test/mpi/communicators \
	test/mpi/corners \
	test/mpi/crowd \
	test/mpi/derived \
	test/mpi/determinism \
	test/mpi/differential \
	test/mpi/early \
	test/mpi/edges \
	test/mpi/far \
	test/mpi/faults \
	test/mpi/freed \
	test/mpi/graphs \
	test/mpi/idup \
	test/mpi/in_a_row \
	test/mpi/init_only \
	test/mpi/interrupted \
	test/mpi/neighbors \
	test/mpi/nonblocking \
	test/mpi/observed \
	test/mpi/passcost \
	test/mpi/persistent \
	test/mpi/pieces \
	test/mpi/pvars \
	test/mpi/reduce_local \
	test/mpi/sessions \
	test/mpi/spawn \
	test/mpi/staging \
	test/mpi/threads \
	test/mpi/warmup \
	test/mpi/yields
endif
if MPIF90
check_PROGRAMS += test/mpi/fortran
endif
mpi_test_scripts = \
	test/mpi/bench.sh \
	test/mpi/cells.sh \
	test/mpi/communicators.sh \
	test/mpi/containers.sh \
	test/mpi/derived.sh \
	test/mpi/faults.sh \
	test/mpi/han.sh \
	test/mpi/init_only.sh \
	test/mpi/loading.sh \
	test/mpi/observe.sh \
	test/mpi/passcost.sh \
	test/mpi/script.sh \
	test/mpi/stacks.sh \
	test/mpi/tests.list \
	test/mpi/visible.sh
installed_test_files += $(mpi_test_scripts)
EXTRA_DIST += $(mpi_test_scripts)

libtestmpi_la_SOURCES = \
	test/mpi/collective.h \
	test/mpi/collective_call.c \
	test/mpi/collective_issue.c \
	test/mpi/collective_move.c \
	test/mpi/collective_reduce.c \
	test/mpi/collective_table.c \
	test/mpi/comms.c \
	test/mpi/comms.h \
	test/mpi/counters.c \
	test/mpi/counters.h \
	test/mpi/cuda_driver.c \
	test/mpi/cuda_driver.h \
	test/mpi/form.c \
	test/mpi/form.h \
	test/mpi/interrupt.c \
	test/mpi/interrupt.h \
	test/mpi/layout.c \
	test/mpi/layout.h \
	test/mpi/memory.c \
	test/mpi/memory.h \
	test/mpi/side.c \
	test/mpi/side.h \
	test/mpi/stacks.c \
	test/mpi/stacks.h \
	test/mpi/sums.c \
	test/mpi/sums.h \
	test/mpi/support.c \
	test/mpi/support.h \
	test/mpi/types.c \
	test/mpi/values.c \
	test/mpi/values.h \
	test/mpi/ways.c \
	test/mpi/ways.h
libtestmpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)

mpi_test_cppflags = $(AM_CPPFLAGS) $(MPI_CFLAGS)
mpi_test_libs = libtestmpi.la $(MPI_LIBS) -lm -ldl -lpthread

test_mpi_allreduce_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_allreduce_LDADD = $(mpi_test_libs)

test_mpi_barriers_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_barriers_LDADD = $(mpi_test_libs)

# NCCL is found as the comparison's programs find it.
test_mpi_beside_nccl_SOURCES = \
	bench/library.c \
	bench/library.h \
	bench/nccl_api.c \
	bench/nccl_api.h \
	test/mpi/beside_nccl.c
test_mpi_beside_nccl_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_beside_nccl_LDADD = $(mpi_test_libs)

test_mpi_callbacks_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_callbacks_LDADD = $(mpi_test_libs)

test_mpi_cells_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_cells_LDADD = $(mpi_test_libs)

test_mpi_collectives_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_collectives_LDADD = $(mpi_test_libs)

test_mpi_communicators_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_communicators_LDADD = $(mpi_test_libs)

test_mpi_corners_SOURCES = \
	test/mpi/corners.c \
	test/mpi/corners.h \
	test/mpi/corners_addresses.c
test_mpi_corners_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_corners_LDADD = $(mpi_test_libs)

test_mpi_crowd_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_crowd_LDADD = $(mpi_test_libs)

test_mpi_derived_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_derived_LDADD = $(mpi_test_libs)

test_mpi_determinism_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_determinism_LDADD = $(mpi_test_libs)

test_mpi_differential_SOURCES = \
	test/mpi/differential.c \
	test/mpi/differential.h \
	test/mpi/differential_draw.c
test_mpi_differential_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_differential_LDADD = $(mpi_test_libs)

test_mpi_early_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_early_LDADD = $(mpi_test_libs)

test_mpi_edges_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_edges_LDADD = $(mpi_test_libs)

test_mpi_far_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_far_LDADD = $(mpi_test_libs)

test_mpi_faults_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_faults_LDADD = $(mpi_test_libs)

# By hand, since automake would have configure look for a Fortran compiler, and insist on one. Modules go where the compiler is started.
fortran_objects = test/mpi/fortran_support_f90.$(OBJEXT) test/mpi/fortran_f90.$(OBJEXT)
test_mpi_fortran_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_fortran_LDADD = $(fortran_objects) $(mpi_test_libs)
test_mpi_fortran_LINK = $(LIBTOOL) $(AM_V_lt) --tag=CC $(AM_LIBTOOLFLAGS) $(LIBTOOLFLAGS) --mode=link $(MPIF90) $(FCFLAGS) \
	$(AM_LDFLAGS) $(LDFLAGS) -o $@
test/mpi/fortran_support_f90.$(OBJEXT): test/mpi/fortran_support.f90
test/mpi/fortran_f90.$(OBJEXT): test/mpi/fortran.f90 test/mpi/fortran_support_f90.$(OBJEXT)
$(fortran_objects):
	@$(MKDIR_P) $(@D)
	$(AM_V_MPIF90)source=`cd $(srcdir) && pwd`/$(@:_f90.$(OBJEXT)=.f90) && cd $(@D) && $(MPIF90) $(FCFLAGS) -c -o $(@F) "$$source"
EXTRA_DIST += test/mpi/fortran.f90 test/mpi/fortran_support.f90
CLEANFILES += $(fortran_objects) test/mpi/fortran_support.mod test/mpi/fortran_test.mod
AM_V_MPIF90 = $(am__v_MPIF90_@AM_V@)
am__v_MPIF90_ = $(am__v_MPIF90_@AM_DEFAULT_V@)
am__v_MPIF90_0 = @echo "  FC      " $@;
am__v_MPIF90_1 =

test_mpi_freed_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_freed_LDADD = $(mpi_test_libs)

test_mpi_graphs_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_graphs_LDADD = $(mpi_test_libs)

test_mpi_idup_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_idup_LDADD = $(mpi_test_libs)

test_mpi_in_a_row_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_in_a_row_LDADD = $(mpi_test_libs)

test_mpi_init_only_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_init_only_LDADD = $(mpi_test_libs)

test_mpi_interrupted_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_interrupted_LDADD = $(mpi_test_libs)

test_mpi_neighbors_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_neighbors_LDADD = $(mpi_test_libs)

test_mpi_nonblocking_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_nonblocking_LDADD = $(mpi_test_libs)
# Loaded by NVTX as a profiler is.
if NVTX
check_LTLIBRARIES += test/mpi/nvtx_counter.la
installed_modules += test/mpi/nvtx_counter.la
endif
test_mpi_nvtx_counter_la_CPPFLAGS = $(AM_CPPFLAGS) $(NVTX_CPPFLAGS)
test_mpi_nvtx_counter_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath $(pkglibexecdir)/test/mpi

test_mpi_observed_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_observed_LDADD = $(mpi_test_libs)

test_mpi_passcost_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_passcost_LDADD = $(mpi_test_libs)

test_mpi_persistent_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_persistent_LDADD = $(mpi_test_libs)

test_mpi_pieces_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_pieces_LDADD = $(mpi_test_libs)

test_mpi_pvars_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_pvars_LDADD = $(mpi_test_libs)

test_mpi_reduce_local_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_reduce_local_LDADD = $(mpi_test_libs)

test_mpi_threads_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_threads_LDADD = $(mpi_test_libs)

test_mpi_sessions_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_sessions_LDADD = $(mpi_test_libs)

test_mpi_spawn_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_spawn_LDADD = $(mpi_test_libs)

test_mpi_warmup_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_warmup_LDADD = $(mpi_test_libs)

test_mpi_yields_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_yields_LDADD = $(mpi_test_libs)

test_mpi_staging_CPPFLAGS = $(mpi_test_cppflags)
test_mpi_staging_LDADD = $(mpi_test_libs)
