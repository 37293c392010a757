# Kernels are compiled by nvcc to fatbins, which an assembler file embeds with .incbin: no CUDA library is linked.
libgpucoll_la_SOURCES += \
	kernels/functors.h \
	kernels/kernel_abi.h

AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =
