/* SPDX-License-Identifier: MIT */
/* Every COLL_* setting: one row of settings.def each.
 *
 * A value comes from the environment, else from the file that COLL_CONFIG
 * names, else ~/.config/coll.conf ($XDG_CONFIG_HOME in place of ~/.config), else
 * /etc/coll.conf (lines NAME = value, # comments), else the row's default. Read
 * once per process, at first use. An unknown COLL_ name, in the environment or a
 * file, is warned about with the nearest valid one.
 */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <stddef.h>

#include "coll/types.h"

enum setting {
#define SETTING(name, fallback, meaning) SETTING_##name,
#include "base/settings.def"
#undef SETTING
    NSETTINGS
};

struct setting_value {
    const char *name; /* "COLL_ALGO" */
    const char *value, *fallback, *meaning, *source;
};

/* Static storage; source is "default", "environment" or a file's path. */
struct setting_value setting_get(enum setting);

/* The value as text, as a number, as bytes ("64K"). A value that does not
 * parse, or lies outside [min, max], is COLL_ERR_INVALID with a sentence that
 * names the setting, its value, its source and the valid range. */
const char *setting_text(enum setting);
coll_status setting_number(enum setting, double min, double max, double *out);
coll_status setting_bytes(enum setting, size_t min, size_t max, size_t *out);

#endif
