dist_noinst_DATA += \
	ompi/shim/README.md \
	ompi/shim/ompi/mpi/fortran/base/fint_2_int.h \
	ompi/shim/opal/mca/threads/pthreads/threads_pthreads_mutex.h \
	ompi/shim/opal/mca/threads/pthreads/threads_pthreads_threads.h \
	ompi/shim/opal/mca/threads/pthreads/threads_pthreads_tsd.h
