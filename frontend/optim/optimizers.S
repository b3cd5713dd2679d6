/* Transformations that are formulas, as a C string. */
    .section .rodata
    .include "text.inc"
    text optim_formulas "optim/optimizers.step"
    .section .note.GNU-stack,"",%progbits
#ifdef __CET__
#include <cet.h> /* nothing here keeps the linker from marking the program */
#endif
