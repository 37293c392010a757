bin_PROGRAMS += gpucoll_info
gpucoll_info_SOURCES = \
	tools/cuda_symbols.c \
	tools/cuda_symbols.h \
	tools/device.c \
	tools/device.h \
	tools/gpu_list.h \
	tools/gpu_list_cuda.c \
	tools/gpucoll_info.c \
	tools/gpucoll_info.h \
	tools/info_build.c \
	tools/info_collectives.c \
	tools/info_constants.c \
	tools/info_gpus.c \
	tools/info_hosts.c \
	tools/info_hosts.h \
	tools/info_messages.c \
	tools/info_parameters.c \
	tools/info_query.c \
	tools/info_query.h \
	tools/info_select.c \
	tools/info_topology.c \
	tools/info_tune.c \
	tools/tune.h \
	tools/tune_fit.c \
	tools/tune_fit.h \
	tools/tune_measure.c \
	tools/tune_ranks.c
gpucoll_info_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CFLAGS) $(UCX_CFLAGS) \
	-DINFO_OMPI_VERSION='"$(OMPI_VERSION)"' -DINFO_GENCODE='"$(NVCC_GENCODE)"'
gpucoll_info_LDADD = libgpucoll.la $(HWLOC_LIBS)

EXTRA_DIST += tools/README.md

# docs/parameters.md and docs/collectives.md say what the tables in the code say.
TESTS += tools/check_docs.sh tools/check_layers.sh tools/check_parameters.sh tools/check_info.sh
dist_noinst_SCRIPTS += tools/check_docs.sh tools/check_layers.sh tools/check_parameters.sh tools/check_info.sh
update-docs: gpucoll_info$(EXEEXT)
	./gpucoll_info$(EXEEXT) --markdown >$(srcdir)/docs/parameters.md
	./gpucoll_info$(EXEEXT) --collectives >$(srcdir)/docs/collectives.md
.PHONY: update-docs
