/* The texts of library.def, as C strings. */
    .section .rodata
    .include "text.inc"
    .macro entries name
    text fe_library_\name "expr/library/\name\().step"
    .endm
#define TEXT(name) entries name
#include "frontend/expr/library.def"
    .section .note.GNU-stack,"",%progbits
#ifdef __CET__
#include <cet.h> /* nothing here keeps the linker from marking the program */
#endif
