/* SPDX-License-Identifier: MIT */
#include "base/env.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/nearest.h"
#include "base/plain.h"

extern char **environ;

#define SETTING(name, fallback, meaning)                                       \
    {"COLL_" #name, fallback, fallback, meaning, "default"},
static struct setting_value settings[] = {
#include "base/settings.def"
};
#undef SETTING

#define SETTING(name, fallback, meaning) "COLL_" #name,
static const char *const names[] = {
#include "base/settings.def"
};
#undef SETTING

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Warnings found while reading; COLL_LOG itself is not known before the end. */
static char warnings[2048];

PRINTF(1, 2) static void warn(const char *format, ...)
{
    const size_t used = strlen(warnings);
    va_list args;
    va_start(args, format);
    vsnprintf(warnings + used, sizeof(warnings) - used, format, args);
    va_end(args);
}

static int find(const char *name, size_t length)
{
    for (int i = 0; i < NSETTINGS; i++)
        if (strlen(names[i]) == length && !strncmp(names[i], name, length))
            return i;
    return -1;
}

static void warn_unknown(const char *name, size_t length, const char *where)
{
    char word[64];
    snprintf(word, sizeof(word), "%.*s", (int)(length < 63 ? length : 63),
             name);
    const char *near = nearest_name(word, names, NSETTINGS);
    warn("%s in %s is no setting%s%s%s\n", word, where,
         near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static void take(int i, const char *value, const char *source)
{
    settings[i].value = value;
    settings[i].source = source;
}

static char *trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    char *end = s + strlen(s);
    while (end > s && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return s;
}

/* Values of a file live as long as the process, as getenv()'s do. */
static void read_file(FILE *file, const char *path)
{
    char line[512];
    char *source = strdup(path);
    for (int number = 1; source && fgets(line, sizeof(line), file); number++) {
        line[strcspn(line, "#\n")] = '\0';
        char *name = trim(line), *equals = strchr(name, '=');
        if (!*name)
            continue;
        if (!equals) {
            warn("%s:%d: \"%s\" is not NAME = value\n", path, number, name);
            continue;
        }
        *equals = '\0';
        name = trim(name);
        const int i = find(name, strlen(name));
        if (i < 0)
            warn_unknown(name, strlen(name), path);
        else
            take(i, strdup(trim(equals + 1)), source);
    }
    fclose(file);
}

static bool is_folder(const char *path)
{
    struct stat it;
    return !stat(path, &it) && S_ISDIR(it.st_mode);
}

static void read_files(void)
{
    const char *named = getenv("COLL_CONFIG"), *home = getenv("HOME");
    char path[4096];
    FILE *file = NULL;
    if (named && *named) {
        file = is_folder(named) ? NULL : fopen(named, "re");
        if (!file)
            warn("COLL_CONFIG: cannot read %s\n", named);
        else
            read_file(file, named);
        return;
    }
    const char *own = getenv("XDG_CONFIG_HOME");
    const bool said = own && *own == '/';
    if ((said || home)
        && snprintf(path, sizeof(path), "%s%s/coll.conf", said ? own : home,
                    said ? "" : "/.config")
               < (int)sizeof(path))
        file = fopen(path, "re");
    if (!file) {
        strcpy(path, "/etc/coll.conf");
        file = fopen(path, "re");
    }
    if (file)
        read_file(file, path);
}

static void read_environment(void)
{
    for (char **e = environ; e && *e; e++) {
        const char *equals = strchr(*e, '=');
        if (strncmp(*e, "COLL_", 5) || !equals)
            continue;
        const size_t length = (size_t)(equals - *e);
        const int i = find(*e, length);
        if (i < 0)
            warn_unknown(*e, length, "the environment");
        else
            take(i, strdup(equals + 1), "environment");
    }
}

static void read_all(void)
{
    read_files();
    read_environment();
    for (int i = 0; i < NSETTINGS; i++)
        if (!settings[i].value) /* no memory for a copy */
            take(i, settings[i].fallback, "default");
}

static void report(void)
{
    for (char *at = warnings, *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        log_line(COLL_LOG_WARN, "settings", "%s", at);
    }
}

static pthread_once_t reported = PTHREAD_ONCE_INIT;

struct setting_value setting_get(enum setting s)
{
    pthread_once(&once, read_all);
    if (s != SETTING_LOG && s != SETTING_EXPLAIN) /* log_line() asks for them */
        pthread_once(&reported, report);
    return settings[s];
}

const char *setting_text(enum setting s)
{
    return setting_get(s).value;
}

/* Not "settings", which is shown unasked: who made the call tells it. */
static const char subject[] = "comm";

coll_status setting_number(enum setting s, double min, double max, double *out)
{
    const struct setting_value v = setting_get(s);
    char *end;
    const double x = plain_number(v.value, &end);
    if (end == v.value || *end || !(x >= min && x <= max))
        return fail(COLL_ERR_INVALID, subject,
                    "%s=%s (from %s): not a number from %g to %g", v.name,
                    v.value, v.source, min, max);
    *out = x;
    return COLL_OK;
}

coll_status setting_bytes(enum setting s, size_t min, size_t max, size_t *out)
{
    const struct setting_value v = setting_get(s);
    char *end;
    double x = plain_number(v.value, &end);
    const char *units = "KMG",
               *unit = *end ? strchr(units, toupper(*end)) : NULL;
    for (long i = 0; unit && i <= unit - units; i++)
        x *= 1024;
    if (end == v.value || (*end && (!unit || end[1])) || !(x >= (double)min)
        || !(x <= (double)max))
        return fail(COLL_ERR_INVALID, subject,
                    "%s=%s (from %s): not a size from %zu to %zu bytes, such "
                    "as 64K",
                    v.name, v.value, v.source, min, max);
    *out = (size_t)x;
    return COLL_OK;
}
