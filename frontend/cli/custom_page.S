/* The page on custom transformations (frontend/optim/CUSTOM.md), as a C string. */
    .section .rodata
    .globl doc_custom_page
doc_custom_page:
    .incbin STEPC_CUSTOM_PAGE
    .byte 0
    .section .note.GNU-stack,"",%progbits
