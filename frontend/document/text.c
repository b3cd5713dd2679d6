/* Values of the document as canonical text. */
#include "frontend/document/document.h"
#include "ir/base/json_tree.h"
#include <string.h>

const struct fe_define *fe_define_find(const struct fe *fe, const char *name)
{
    const struct fe_define *found = NULL; /* the last one counts */
    for (size_t i = 0; i < fe->options->define_count; i++)
        if (strcmp(fe->options->defines[i].name, name) == 0) found = &fe->options->defines[i];
    return found;
}

/* The text of numbers stays as it is written. */
static struct json_tree tree_of(struct fe *fe, fe_json v)
{
    if (v->kind == JSON_STRING) return json_text(fe->arena, v->string);
    if (v->kind != JSON_ARRAY && v->kind != JSON_OBJECT)
        return json_raw(fe->arena, arena_string_n(fe->arena, fe->json.text + v->offset, v->length));
    bool object = v->kind == JSON_OBJECT;
    bool constants = object && v->key && strcmp(v->key, "constants") == 0 && v->parent == 0;
    struct json_tree t = object ? json_object(fe->arena) : json_array(fe->arena);
    for (fe_json child = fe_first(fe, v); child; child = fe_next(fe, child)) {
        const struct fe_define *define = constants ? fe_define_find(fe, child->key) : NULL;
        json_add(t, child->key, define ? json_raw(fe->arena, define->value) : tree_of(fe, child));
    }
    return t; /* as deep as the reader allows */
}

const char *fe_text(struct fe *fe, fe_json v) { return json_print(tree_of(fe, v)); }
