/* The page on microbatches and single examples (frontend/MICROBATCHES.md), as a C string. */
    .section .rodata
    .globl doc_microbatches_page
doc_microbatches_page:
    .incbin STEPC_MICROBATCHES_PAGE
    .byte 0
    .section .note.GNU-stack,"",%progbits
