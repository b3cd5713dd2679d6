/* Where shapes come from. An error that two shapes do not fit stands where they meet; the mistake may be where one of
 * them is written. So every name in the text of such an error is followed to what gives it its shape, in a note: an
 * input's "shape", the "shape" or "features" of a block of that name, or of the model's last layer that has them. */
#include "frontend/document/document.h"

#include <string.h>

enum { MOST_NOTES = 4, LONGEST_TEXT = 4000 };

/* "shape" or "features" of a block, or of the last of its layers that has them; NULL: it has none. */
static fe_json shape_of(struct fe *fe, fe_json block, int depth)
{
    if (!block || block->kind != JSON_OBJECT || depth > 16) return NULL;
    fe_json found = fe_member(fe, block, "features"), layers = fe_member(fe, block, "layers");
    if (!found) found = fe_member(fe, block, "shape");
    if (found || !layers || layers->kind != JSON_ARRAY) return found;
    for (fe_json layer = fe_first(fe, layers); layer; layer = fe_next(fe, layer)) {
        fe_json later = shape_of(fe, layer, depth + 1);
        if (later) found = later;
    }
    return found;
}

static fe_json named_block(struct fe *fe, const char *name)
{
    for (uint32_t i = 1; i < fe->json.count; i++) {
        fe_json v = &fe->json.values[i];
        if (v->kind == JSON_STRING && v->key && strcmp(v->key, "name") == 0 && strcmp(v->string, name) == 0 &&
            v->parent)
            return &fe->json.values[v->parent];
    }
    return NULL;
}

static fe_json origin(struct fe *fe, const char *name, bool shapes)
{
    fe_json root = fe_root(fe), inputs = fe_member(fe, root, "inputs"),
            input = inputs ? fe_member(fe, inputs, name) : NULL;
    if (input) return fe_member(fe, input, shapes ? "shape" : "dtype");
    if (!shapes) return NULL;
    return shape_of(fe, strcmp(name, "model") == 0 ? fe_member(fe, root, "model") : named_block(fe, name), 0);
}

struct notes {
    fe_json seen[MOST_NOTES];
    uint32_t count;
    bool shapes; /* or dtypes */
};

static void follow_names(struct fe *fe, struct diag *d, struct diag_span span, struct notes *notes)
{
    const char *text = fe->json.text + span.offset, *end = text + span.length;
    fe_json root = fe_root(fe), model = fe_member(fe, root, "model"),
            input = model && model->kind == JSON_OBJECT ? fe_member(fe, model, "input") : NULL;
    for (const char *p = text; p < end && notes->count < MOST_NOTES;) {
        size_t n = fe_name_length(p);
        if (n > (size_t)(end - p)) n = (size_t)(end - p);
        const char *name = arena_string_n(fe->arena, p, n);
        fe_json from = n && fe_is_name(name) ? origin(fe, name, notes->shapes) : NULL;
        for (uint32_t i = 0; from && i < notes->count; i++)
            if (notes->seen[i] == from) from = NULL;
        if (from && (from->offset < d->span.offset || from->offset >= d->span.offset + d->span.length)) {
            diag_note(fe->diags, d, (struct diag_span){from->offset, from->length}, "\"%s\" has its %s from here", name,
                      notes->shapes ? "shape" : "dtype");
            notes->seen[notes->count++] = from;
        }
        if (strcmp(name, "model") == 0 && input && input->offset != span.offset)
            follow_names(fe, d, (struct diag_span){input->offset, input->length}, notes);
        p += n ? n : 1;
    }
}

/* The innermost value that stands exactly there; NULL: there is none. */
static fe_json value_at(struct fe *fe, struct diag_span span)
{
    for (uint32_t i = 1; i < fe->json.count; i++)
        if (fe->json.values[i].offset == span.offset) return &fe->json.values[i];
    return NULL;
}

/* A layer's input is what the nearest block around it says. */
static void follow_input(struct fe *fe, struct diag *d, fe_json v, struct notes *notes)
{
    fe_json input = NULL;
    while (!input && v && v->kind != JSON_STRING) {
        input = v->kind == JSON_OBJECT ? fe_member(fe, v, "input") : NULL;
        if (!input && v->kind == JSON_OBJECT) input = fe_member(fe, v, "inputs");
        if (v->key && strcmp(v->key, "model") == 0) break;
        v = v->parent ? &fe->json.values[v->parent] : NULL;
    }
    if (!input || input->length > LONGEST_TEXT) return;
    if (input->offset < d->span.offset || input->offset >= d->span.offset + d->span.length)
        diag_note(fe->diags, d, (struct diag_span){input->offset, input->length}, "the input comes from here");
    follow_names(fe, d, (struct diag_span){input->offset, input->length}, notes);
}

/* A size that is wrong is written in the constant. */
static void follow_constants(struct fe *fe, struct diag *d, fe_json v)
{
    fe_json constants = fe_member(fe, fe_root(fe), "constants");
    for (const char *p = v->string; constants && *p;) {
        size_t n = fe_name_length(p);
        fe_json from = n ? fe_member(fe, constants, arena_string_n(fe->arena, p, n)) : NULL;
        if (from && d->notes.count < MOST_NOTES)
            diag_note(fe->diags, d, (struct diag_span){from->offset, from->length}, "\"%s\" is given here", from->key);
        p += n ? n : 1;
    }
}

void fe_origins(struct fe *fe)
{
    for (size_t i = 0; i < fe->diags->list.count && i < DIAG_RECORDED; i++) {
        struct diag *d = &fe->diags->list.items[i];
        bool shapes = strcmp(d->code, "E0210") == 0 || strcmp(d->code, "E0211") == 0 || strcmp(d->code, "E0212") == 0;
        bool dtypes = strcmp(d->code, "E0213") == 0, values = strcmp(d->code, "E0310") == 0;
        struct notes notes = {.shapes = shapes};
        if (!d->span.length || d->severity != DIAG_ERROR) continue;
        fe_json v = value_at(fe, d->span);
        if ((shapes || dtypes) && d->span.length < LONGEST_TEXT) follow_names(fe, d, d->span, &notes);
        if ((shapes || dtypes || values) && v && v->kind == JSON_OBJECT) follow_input(fe, d, v, &notes);
        if (v && v->kind == JSON_STRING && *v->string == '$') follow_constants(fe, d, v);
    }
}
