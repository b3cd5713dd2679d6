/* The starter documents of `stepc init` (frontend/cli/templates), as C strings. */
    .section .rodata
    .macro template name
    .globl cli_template_\name
cli_template_\name:
    .incbin "\name\().json"
    .byte 0
    .endm
    template mlp
    template cnn
    template gpt2
    template llama
    template lora
    template microbatches
    .section .note.GNU-stack,"",%progbits
