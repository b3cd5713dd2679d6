/* Transformations that are formulas, as a C string. */
    .section .rodata
    .include "text.inc"
    text optim_formulas "optim/optimizers.step"
    .section .note.GNU-stack,"",%progbits
