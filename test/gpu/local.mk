# The kernels and the cuda accelerator on real GPUs, without MPI. Exits with 77 (skipped) where there is none.
if CUDA
check_PROGRAMS += test/gpu/kernels_test
TESTS += test/gpu/kernels_test
endif

test_gpu_kernels_test_SOURCES = \
	test/gpu/arrival_test.c \
	test/gpu/courier_test.c \
	test/gpu/crossed_test.c \
	test/gpu/elements.c \
	test/gpu/elements.h \
	test/gpu/exchange_runs.c \
	test/gpu/exchange_runs.h \
	test/gpu/exchange_test.c \
	test/gpu/gate_test.c \
	test/gpu/given_up_test.c \
	test/gpu/gpus.c \
	test/gpu/gpus.h \
	test/gpu/kernels_test.c \
	test/gpu/laid_test.c \
	test/gpu/memory_test.c \
	test/gpu/options.c \
	test/gpu/pack_test.c \
	test/gpu/ranks.c \
	test/gpu/ranks.h \
	test/gpu/relay_test.c \
	test/gpu/speed.c \
	test/gpu/stream_test.c \
	test/gpu/tests.h \
	test/relay/expected.c \
	test/relay/expected.h
test_gpu_kernels_test_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
test_gpu_kernels_test_LDADD = libgpucoll.la -lpthread -ldl
