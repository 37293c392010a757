# The component: the only code that sees Open MPI's internal headers.
EXTRA_DIST += ompi/README.md

dist_pkgdata_DATA += ompi/mca/coll/gpucoll/help-mpi-coll-gpucoll.txt

if MPI
ompiplugin_LTLIBRARIES = ompi/mca/coll/gpucoll/mca_coll_gpucoll.la

# Lets a component that is not installed find its texts: it looks beside itself.
noinst_DATA += ompi/mca/coll/gpucoll/.libs/help-mpi-coll-gpucoll.txt
CLEANFILES += ompi/mca/coll/gpucoll/.libs/help-mpi-coll-gpucoll.txt
endif

ompi_mca_coll_gpucoll_mca_coll_gpucoll_la_SOURCES = \
	ompi/mca/coll/gpucoll/coll_gpucoll.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_allgather.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_allreduce.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_alltoall.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_barrier.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_bcast.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_compat.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_component.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_edges.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_edges.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_finalize.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_finalize.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_forms.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_gather.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_han.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_han.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_layout.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_layout.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_later.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_later.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_meeting.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_meeting.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_messages.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_messages.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_module.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_native.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_native.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_neighbor.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_observe.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_observe.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_operator.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_operator.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_ordered.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_ordered.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_pool.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_pool.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_pvars.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_reduce.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_reduce_local.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_reduce_scatter.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_reduction.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_reduction.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_region.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_region.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_request.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_request.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_scan.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_scatter.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_selection.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_selection.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_sequence.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_sequence.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_stage.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_stage.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_summary.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_tag.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_tag.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_warmup.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_warmup.h \
	ompi/mca/coll/gpucoll/coll_gpucoll_watch.c \
	ompi/mca/coll/gpucoll/coll_gpucoll_watch.h
# Objects must not begin with mca_: Open MPI would take them for components when it is pointed to the build folder.
ompi_mca_coll_gpucoll_mca_coll_gpucoll_la_SHORTNAME = component
ompi_mca_coll_gpucoll_mca_coll_gpucoll_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
# Exported beside the component itself: the host accelerator's allocator, for tests that mix kinds of memory.
# nodelete: Open MPI unloads components at MPI_Finalize, but callbacks of drivers and a last kernel's thread may still be on their way.
ompi_mca_coll_gpucoll_mca_coll_gpucoll_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-export-symbols-regex '^(mca_coll_gpucoll_component|gpucoll_host_(malloc|malloc_pieces|remap_pieces|free|synchronize))$$' -Wl,-z,defs -Wl,-z,nodelete
ompi_mca_coll_gpucoll_mca_coll_gpucoll_la_LIBADD = libgpucoll.la $(OMPI_LIBS)

ompi/mca/coll/gpucoll/.libs/help-mpi-coll-gpucoll.txt: ompi/mca/coll/gpucoll/help-mpi-coll-gpucoll.txt
	$(AM_V_at)$(MKDIR_P) ompi/mca/coll/gpucoll/.libs
	$(AM_V_GEN)cp $(srcdir)/ompi/mca/coll/gpucoll/help-mpi-coll-gpucoll.txt $@
