libgpucoll_la_SOURCES += \
	ucx_tl/tl.h \
	ucx_tl/tl.c \
	ucx_tl/p2p/p2p.c
EXTRA_DIST += ucx_tl/README.md
