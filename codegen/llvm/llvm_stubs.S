/* What stands here for the functions of LLVM's C API: each goes on at the address that llvm_open.c has written into the
 * table. As a program's table of foreign functions, it is pages of its own, which cannot be written afterwards. */
#if defined(__CET__)
#include <cet.h>
#define LANDING _CET_ENDBR
#else
#define LANDING
#endif
#if defined(__x86_64__)
#define GO_ON(slot) LANDING; jmp *slot(%rip)
#elif defined(__aarch64__)
#define GO_ON(slot) hint 34; adrp x16, slot; ldr x16, [x16, :lo12:slot]; br x16
#else
#error "a jump through the table has to be written for this machine"
#endif
    .bss
    .globl cg_llvm_table
    .hidden cg_llvm_table
    .balign 4096
cg_llvm_table:
#define LLVM(name) .Lat##name: .skip 8;
#include "codegen/llvm/llvm_functions.def"
#undef LLVM
    .skip 8 /* the linker of that library, NULL: it has none */
    .balign 4096
    .text
#define LLVM(name) \
    .globl LLVM##name; .hidden LLVM##name; .type LLVM##name, %function; .balign 16; \
    LLVM##name: GO_ON(.Lat##name); .size LLVM##name, . - LLVM##name;
#include "codegen/llvm/llvm_functions.def"
    .section .note.GNU-stack,"",%progbits
