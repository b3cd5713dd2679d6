/* Objects without "type", by name: the rows of settings.def. */
#include "frontend/document/arguments.h"

#define SETTING(name, arguments, doc) static const struct fe_arg name##_rows[] = {arguments};
#include "frontend/document/settings.def"
#undef SETTING

static const struct fe_row settings[] = {
#define SETTING(name, arguments, doc) {#name, name##_rows, sizeof name##_rows / sizeof *name##_rows, doc},
#include "frontend/document/settings.def"
#undef SETTING
};

bool fe_setting_row(uint32_t index, struct fe_row *out)
{
    if (index >= sizeof settings / sizeof *settings) return false;
    *out = settings[index];
    return true;
}

bool fe_setting(struct fe *fe, enum fe_setting setting, fe_json object, const char *what, struct fe_value *out)
{
    return fe_settings(fe, object, what, settings[setting].args, settings[setting].count, NULL, out);
}
