/* The layers by name: the rows of layers.def. */
#include "frontend/model/block.h"

#define X(name, doc) extern const struct fe_layer fe_layer_##name;
#include "frontend/model/layers.def"
#undef X

static const struct fe_layer *const layers[] = {
#define X(name, doc) &fe_layer_##name,
#include "frontend/model/layers.def"
#undef X
};
static const char *const docs[] = {
#define X(name, doc) doc,
#include "frontend/model/layers.def"
#undef X
};
enum { LAYERS = sizeof layers / sizeof *layers };
const struct fe_layers fe_layers = {LAYERS, layers};

bool fe_layer_row(uint32_t index, struct fe_row *out)
{
    if (index >= LAYERS) return false;
    *out = (struct fe_row){layers[index]->name, layers[index]->args, layers[index]->count, docs[index]};
    return true;
}
