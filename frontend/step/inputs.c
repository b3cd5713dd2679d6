/* What the entry functions of a step have in common: their inputs, and trees over the parameters. */
#include "frontend/step/assemble.h"

const ir_value *fe_step_inputs(struct fe_step *s, struct ir_builder *b, const bool *needed)
{
    ir_value *values = arena_new_array(s->fe->arena, ir_value, s->input_count + 1);
    for (uint32_t i = 0; i < s->input_count; i++) {
        const struct ir_slot *slot = &s->module->slots.items[s->inputs[i]];
        if (!needed || needed[i]) values[i] = ir_param_new(b, slot->name, slot->type, (int32_t)s->inputs[i]);
    }
    return values;
}

struct fe_val fe_step_tree(struct fe_step *s, const ir_value *values)
{
    struct fe_tree *tree = arena_new(s->fe->arena, struct fe_tree);
    const char **paths = arena_new_array(s->fe->arena, const char *, s->param_count + 1);
    ir_value *present = arena_new_array(s->fe->arena, ir_value, s->param_count + 1);
    for (uint32_t i = 0; i < s->param_count; i++)
        if (values[i]) paths[tree->count] = s->params[i].path, present[tree->count++] = values[i];
    tree->paths = paths;
    tree->values = present;
    return (struct fe_val){.kind = FE_VAL_TREE, .tree = tree};
}
