/* The archive of the runtime inside the compiler: link.c writes it beside the object file and links with it. */
    .section .rodata
    .globl cg_runtime_image
    .globl cg_runtime_image_end
    .balign 16
cg_runtime_image:
    .incbin STEPC_RUNTIME_ARCHIVE
cg_runtime_image_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
#ifdef __CET__
#include <cet.h> /* nothing here keeps the linker from marking the program */
#endif
