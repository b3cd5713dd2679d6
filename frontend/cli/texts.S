/* Texts that the program carries, as C strings: pages of `stepc doc`, starter documents of `stepc init`, names of
 * tensors elsewhere. Paths start at
 * frontend/. */
    .section .rodata
    .include "text.inc"
    text doc_custom_page "optim/CUSTOM.md"
    text doc_state_page "optim/STATE.md"
    text doc_inference_page "step/INFERENCE.md"
    text doc_microbatches_page "step/MICROBATCHES.md"
    .macro template name
    text cli_template_\name "cli/templates/\name\().json"
    .endm
    template mlp
    template cnn
    template gpt2
    template llama
    template lora
    template microbatches
    .macro recipe name
    text doc_recipe_\name "cli/cookbook/\name\().json"
    .endm
#define RECIPE(subject, name, ...) recipe name
#include "frontend/cli/cookbook.def"
    text doc_site_style "cli/templates/site.css"
    text doc_site_script "cli/templates/site.js"
    text cli_names_gpt2 "cli/names/gpt2.json"
    text cli_names_llama "cli/names/llama.json"
    text cli_explain_template "cli/templates/explain.html"
    text cli_step_header "../runtime/include/stepc/step.h"
    .section .note.GNU-stack,"",%progbits
#ifdef __CET__
#include <cet.h> /* nothing here keeps the linker from marking the program */
#endif
