/* The text that stands before generated CUDA kernels (kernels/cuda/prelude.cu), as a C string. */
    .section .rodata
    .globl cg_cuda_prelude
cg_cuda_prelude:
    .incbin STEPC_CUDA_PRELUDE
    .byte 0
    .section .note.GNU-stack,"",%progbits
#ifdef __CET__
#include <cet.h> /* nothing here keeps the linker from marking the program */
#endif
