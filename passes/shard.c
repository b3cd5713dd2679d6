/* Sharding: from the tensor stage to the stage where every function is the program of one device. A mesh of one device
 * needs no more than that: constraints and stop_gradient, which have done their work, go. */
#include "passes/common.h"

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    const struct ir_node *n = ir_get(from, old);
    struct pass *p = user;
    if (n->op == OP_sharding_constraint || n->op == OP_stop_gradient)
        return map[n->args[0]];
    return pass_remake(p, b, n, map);
}

struct ir_module *pass_shard(struct pass *p, struct ir_module *m)
{
    int64_t devices = 1;
    for (uint32_t i = 0; i < m->mesh.axis_count; i++)
        devices *= m->mesh.size[i];
    if (devices != 1) {
        pass_error(p, m, 0, "E0450", "a mesh of %lld devices is not supported yet", (long long)devices);
        return NULL;
    }
    struct ir_module *to = pass_rebuild(p, m, rewrite, p);
    to->stage = IR_AT_SPMD;
    return to;
}
