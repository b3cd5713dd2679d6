/* The layers by name: the rows of layers.def. */
#include "frontend/model.h"
#include <string.h>

#define X(name) extern const struct fe_layer fe_layer_##name;
#include "frontend/layers.def"
#undef X

const struct fe_layer *fe_layer_find(const char *name)
{
    static const struct fe_layer *const layers[] = {
#define X(name) &fe_layer_##name,
#include "frontend/layers.def"
#undef X
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (!strcmp(layers[i]->name, name)) return layers[i];
    return NULL;
}
