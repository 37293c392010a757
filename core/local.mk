libgpucoll_la_SOURCES += \
	core/accel/accel.c \
	core/accel/accel.h \
	core/accel/cuda.h \
	core/accel/host.c \
	core/accel/host.h \
	core/accel/host_arena.c \
	core/accel/host_arena.h \
	core/accel/host_kernels.c \
	core/accel/host_kernels.h \
	core/accel/host_reduce.c \
	core/accel/host_stream.c \
	core/accel/host_stream.h \
	core/accel/nvml.c \
	core/accel/nvml.h \
	core/agreement.c \
	core/agreement.h \
	core/algorithm.h \
	core/algorithms.c \
	core/allreduce_oneshot.c \
	core/allreduce_phased.c \
	core/allreduce_twoshot.c \
	core/allreduce_twoshot_ll128.c \
	core/base/clock.h \
	core/base/config.c \
	core/base/config.h \
	core/base/log.c \
	core/base/log.h \
	core/base/segment.c \
	core/base/segment.h \
	core/base/status.c \
	core/base/status.h \
	core/base/types.c \
	core/base/types.h \
	core/board.c \
	core/board.h \
	core/context.c \
	core/context.h \
	core/gpu.c \
	core/gpu.h \
	core/gpucoll.h \
	core/kernel_run.c \
	core/model.c \
	core/model.h \
	core/peer.c \
	core/peer.h \
	core/plan.h \
	core/request.c \
	core/request.h \
	core/selector.c \
	core/selector.h \
	core/team.c \
	core/team.h \
	core/twoshot.h \
	core/watchdog.c \
	core/watchdog.h
EXTRA_DIST += core/README.md
if CUDA
libgpucoll_la_SOURCES += \
	core/accel/cuda.c \
	core/accel/cuda_accel.h \
	core/accel/cuda_copy.c \
	core/accel/cuda_device.c \
	core/accel/cuda_driver.c \
	core/accel/cuda_driver.h \
	core/accel/cuda_stream.c
endif
