# The component: the only code that sees Open MPI's internal headers.


ompi_mca_coll_gpucoll_mca_coll_gpucoll_la_SOURCES =
ompi_mca_coll_gpucoll_mca_coll_gpucoll_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
ompi_mca_coll_gpucoll_mca_coll_gpucoll_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-export-symbols-regex '^mca_coll_gpucoll_component$$' -Wl,-z,defs
ompi_mca_coll_gpucoll_mca_coll_gpucoll_la_LIBADD = libgpucoll.la $(OMPI_LIBS)
