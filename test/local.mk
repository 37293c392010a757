# Tests are built by `make check`; `make install-tests` puts them, and what runs them, under LIBEXECDIR/gpucoll for
# machines that only run (contrib/gpu_check --prefix).
installed_tests = $(check_PROGRAMS)
installed_modules =
installed_test_files = test/gpu_count test/run_mpi.sh
dist_noinst_SCRIPTS += test/gpu_count test/run_mpi.sh
check_LTLIBRARIES =
EXTRA_DIST += test/topology

include test/unit/local.mk
include test/mpi/local.mk
include test/gpu/local.mk
include test/net/local.mk

AM_TESTS_ENVIRONMENT = \
	GPUCOLL_MPIRUN='$(MPIRUN)'; export GPUCOLL_MPIRUN; \
	GPUCOLL_COMPONENTS='$(abs_builddir)/ompi/mca/coll/gpucoll/.libs'; export GPUCOLL_COMPONENTS;

install-tests: $(installed_tests) $(installed_modules)
	@set -e; for file in $(installed_tests); do \
	    $(MKDIR_P) "$(DESTDIR)$(pkglibexecdir)/`dirname $$file`"; \
	    $(LIBTOOL) --silent --mode=install $(INSTALL_PROGRAM) $$file "$(DESTDIR)$(pkglibexecdir)/$$file"; \
	done; \
	for file in $(installed_modules); do \
	    $(LIBTOOL) --silent --mode=install $(INSTALL) $$file "$(DESTDIR)$(pkglibexecdir)/`dirname $$file`"; \
	done; \
	for file in $(installed_test_files); do \
	    $(MKDIR_P) "$(DESTDIR)$(pkglibexecdir)/`dirname $$file`"; \
	    $(INSTALL_SCRIPT) $(srcdir)/$$file "$(DESTDIR)$(pkglibexecdir)/$$file"; \
	done
	@echo "tests installed under $(pkglibexecdir)"

uninstall-local:
	rm -rf "$(DESTDIR)$(pkglibexecdir)/test"
.PHONY: install-tests
