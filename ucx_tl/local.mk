libgpucoll_la_SOURCES += \
	ucx_tl/tl.h \
	ucx_tl/tl.c \
	ucx_tl/net.h \
	ucx_tl/rdma/report.h \
	ucx_tl/pipe.h \
	ucx_tl/p2p/p2p.c \
	ucx_tl/shm/outbox.h \
	ucx_tl/shm/pipe.c \
	ucx_tl/shm/shm.c \
	ucx_tl/shm/shm.h \
	ucx_tl/cpu_reduce/cores.c \
	ucx_tl/cpu_reduce/cores.h \
	ucx_tl/cpu_reduce/cpu_reduce.c \
	ucx_tl/cpu_reduce/pool.c \
	ucx_tl/cpu_reduce/pool.h \
	ucx_tl/cpu_reduce/sum.c \
	ucx_tl/cpu_reduce/sum.h
# The network: UCX's headers are needed, its library is found at run time.
if UCX
libgpucoll_la_SOURCES += \
	ucx_tl/rdma/devices.c \
	ucx_tl/rdma/devices.h \
	ucx_tl/rdma/drain.c \
	ucx_tl/rdma/found_devices.c \
	ucx_tl/rdma/memory.c \
	ucx_tl/rdma/memory.h \
	ucx_tl/rdma/message.c \
	ucx_tl/rdma/net.h \
	ucx_tl/rdma/peer.c \
	ucx_tl/rdma/rdma.c \
	ucx_tl/rdma/report.c \
	ucx_tl/rdma/tie_thread.c \
	ucx_tl/rdma/tie_thread.h \
	ucx_tl/rdma/ties.c \
	ucx_tl/rdma/ucx.c \
	ucx_tl/rdma/ucx.h \
	ucx_tl/rdma/withdraw.c
else
libgpucoll_la_SOURCES += ucx_tl/rdma/absent.c
endif
libgpucoll_la_CPPFLAGS += $(UCX_CFLAGS)
EXTRA_DIST += ucx_tl/README.md
