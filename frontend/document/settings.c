/* Objects without "type", by name: the rows of settings.def. */
#include "frontend/document/document.h"

#define X(name, doc) extern const struct fe_settings_rows fe_settings_##name;
#include "frontend/document/settings.def"
#undef X

static const struct {
    const char *name;
    const struct fe_settings_rows *rows;
    const char *doc;
} settings[] = {
#define X(name, doc) {#name, &fe_settings_##name, doc},
#include "frontend/document/settings.def"
#undef X
};

bool fe_setting_row(uint32_t index, struct fe_row *out)
{
    if (index >= sizeof settings / sizeof *settings) return false;
    *out = (struct fe_row){settings[index].name, settings[index].rows->args, settings[index].rows->count,
                           settings[index].doc};
    return true;
}
