/* The page on evaluation and inference (frontend/INFERENCE.md), as a C string. */
    .section .rodata
    .globl doc_inference_page
doc_inference_page:
    .incbin STEPC_INFERENCE_PAGE
    .byte 0
    .section .note.GNU-stack,"",%progbits
