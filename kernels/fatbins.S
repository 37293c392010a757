/* The fatbins as read-only data. The paths are relative to the build's top folder, where the assembler runs; the symbols stay
 * inside the shared object. */
    .macro image name
    .globl gpucoll_image_\name
    .hidden gpucoll_image_\name
    .type gpucoll_image_\name, STT_OBJECT
    .balign 64
gpucoll_image_\name:
    .incbin "kernels/\name\().fatbin"
    .size gpucoll_image_\name, . - gpucoll_image_\name
    .endm

    .section .rodata
    image allreduce_integer
    image allreduce_float
    image allreduce_rare
    image exchange_integer
    image exchange_float
    image exchange_rare
    image exchange_move
    image relay_integer
    image relay_float
    image relay_rare
    image pack_layout

    .section .note.GNU-stack, "", %progbits
