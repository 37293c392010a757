# Kernels are compiled by nvcc to fatbins, which an assembler file embeds with .incbin: no CUDA library is linked.
kernel_abis = \
	kernels/bell_abi.h \
	kernels/kernel_abi.h \
	kernels/layout_abi.h \
	kernels/relay_abi.h
libgpucoll_la_SOURCES += $(kernel_abis) kernels/functors.h
if CUDA
libgpucoll_la_SOURCES += \
	kernels/fatbins.S \
	kernels/image.c \
	kernels/image.h
endif

kernel_sources = \
	kernels/allreduce_float.cu \
	kernels/allreduce_integer.cu \
	kernels/allreduce_rare.cu \
	kernels/exchange_float.cu \
	kernels/exchange_integer.cu \
	kernels/exchange_move.cu \
	kernels/exchange_rare.cu \
	kernels/pack_layout.cu \
	kernels/relay_float.cu \
	kernels/relay_integer.cu \
	kernels/relay_rare.cu
kernel_headers = \
	kernels/allreduce_ll128.cuh \
	kernels/allreduce_oneshot.cuh \
	kernels/allreduce_swap.cuh \
	kernels/allreduce_twoshot.cuh \
	kernels/bell.cuh \
	kernels/bulk.cuh \
	kernels/connection.cuh \
	kernels/connection_simple.cuh \
	kernels/courier.cuh \
	kernels/crew.cuh \
	kernels/exchange.cuh \
	kernels/exchange_ll128.cuh \
	kernels/exchange_simple.cuh \
	kernels/instantiate.cuh \
	kernels/laid.cuh \
	kernels/line_stream.cuh \
	kernels/linger.cuh \
	kernels/ll.cuh \
	kernels/ll128.cuh \
	kernels/ll_reduce.cuh \
	kernels/pack.cuh \
	kernels/ranks.cuh \
	kernels/reduce_blocks.cuh \
	kernels/reduce_bulk.cuh \
	kernels/reduce_ops.cuh \
	kernels/relay.cuh \
	kernels/roles.cuh \
	kernels/simple.cuh \
	kernels/store.cuh \
	kernels/sync.cuh
kernel_fatbins = $(kernel_sources:.cu=.fatbin)
EXTRA_DIST += kernels/README.md $(kernel_sources) $(kernel_headers)
CLEANFILES += $(kernel_fatbins)

# .incbin is seen neither by the preprocessor nor by automake's dependencies. Through a variable, since automake takes a target that
# it finds by name for a replacement of its own rule.
fatbins_object = kernels/libgpucoll_la-fatbins.lo
$(fatbins_object): $(kernel_fatbins)
$(kernel_fatbins): $(kernel_headers) $(kernel_abis) kernels/functors.h kernels/local.mk

# PTX is compressed, machine code is not: it would be a quarter as large, and take the driver twice as long to load (docs/design-calls.md).
SUFFIXES = .cu .fatbin
.cu.fatbin:
	@$(MKDIR_P) $(@D)
	$(AM_V_NVCC)$(NVCC) -std=c++17 -O3 -I$(top_srcdir) $(GPUCOLL_NVCCFLAGS) $(NVCCFLAGS) $(NVCC_GENCODE) \
	    -fatbin -o $@ $<

AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =
