# The environment file and the environment module carry the installed paths, so make writes them, not configure.
contrib_expand = $(AM_V_GEN)$(MKDIR_P) contrib && $(SED) \
	-e 's|@prefix[@]|$(prefix)|g' \
	-e 's|@bindir[@]|$(bindir)|g' \
	-e 's|@ompiplugindir[@]|$(ompiplugindir)|g' \
	-e 's|@OMPI_BINDIR[@]|$(OMPI_BINDIR)|g' \
	-e 's|@OMPI_LIBDIR[@]|$(OMPI_LIBDIR)|g' \
	-e 's|@OMPI_VERSION[@]|$(OMPI_VERSION)|g' \
	-e 's|@VERSION[@]|$(VERSION)|g'

contrib/env.sh: contrib/env.sh.in Makefile
	$(contrib_expand) $(srcdir)/contrib/env.sh.in > $@
contrib/$(VERSION): contrib/gpucoll.modulefile.in Makefile
	$(contrib_expand) $(srcdir)/contrib/gpucoll.modulefile.in > $@

if MPI
envdir = $(prefix)
env_DATA = contrib/env.sh
modulefiledir = $(datadir)/modulefiles/gpucoll
modulefile_DATA = contrib/$(VERSION)
CLEANFILES += $(env_DATA) $(modulefile_DATA)
endif

dist_noinst_SCRIPTS += \
	contrib/check \
	contrib/gpu_check \
	contrib/mpi4py \
	contrib/mpich_tests \
	contrib/ompi5 \
	contrib/quickstart
dist_noinst_DATA += \
	contrib/check_package.sh \
	contrib/lib.sh
EXTRA_DIST += \
	contrib/README.md \
	contrib/easybuild/gpucoll-$(VERSION)-gompi-2025a-CUDA-12.8.0.eb \
	contrib/env.sh.in \
	contrib/gpucoll.modulefile.in \
	contrib/spack/spack_repo/gpucoll/packages/gpucoll/package.py \
	contrib/spack/spack_repo/gpucoll/repo.yaml
