/* The page on state and hyper-parameters (frontend/optim/STATE.md), as a C string. */
    .section .rodata
    .globl doc_state_page
doc_state_page:
    .incbin STEPC_STATE_PAGE
    .byte 0
    .section .note.GNU-stack,"",%progbits
