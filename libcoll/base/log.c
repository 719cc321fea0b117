/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/nearest.h"

enum { LINE_MAX_BYTES = 1024, MAX_SUBJECTS = 16 };

static const char *const level_names[] = {"off", "error", "warn", "info",
                                          "debug"};
enum { NLEVELS = sizeof(level_names) / sizeof(level_names[0]) };

/* COLL_LOG, parsed once. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static coll_log_level general;
static struct {
    char name[16];
    coll_log_level level;
} subjects[MAX_SUBJECTS];
static int nsubjects;

/* What lines are about: tests/documents_test.py looks for others. */
static const char *const known[] = {
    "bootstrap", "comm",  "explain", "probe", "recorder", "select",
    "settings",  "shm",   "sim",     "store", "topo",     "ucx"};
enum { NKNOWN = sizeof(known) / sizeof(known[0]) };

static coll_log_hook *hook;
static void *hook_context;

static _Thread_local char sentence[LINE_MAX_BYTES];

static void emit(coll_log_level level, const char *subject, const char *line)
{
    if (hook)
        hook(level, subject, line, hook_context);
    else
        fprintf(stderr, "coll: %s: %s: %s\n", level_names[level], subject,
                line);
}

static bool find_level(const char *word, size_t length, coll_log_level *level)
{
    for (int i = 0; i < NLEVELS; i++)
        if (strlen(level_names[i]) == length
            && !strncmp(word, level_names[i], length)) {
            *level = (coll_log_level)i;
            return true;
        }
    return false;
}

static void check_subject(const char *name)
{
    char message[256] = "";
    const char *meant = nearest_name(name, known, NKNOWN);
    for (int i = 0; i < NKNOWN; i++)
        if (!strcmp(known[i], name))
            return;
    int n = snprintf(message, sizeof(message),
                     "COLL_LOG: no line is about \"%s\"", name);
    if (meant)
        n += snprintf(message + n, sizeof(message) - (size_t)n,
                      ", did you mean %s?", meant);
    else
        for (int i = 0; i < NKNOWN; i++)
            n += snprintf(message + n, sizeof(message) - (size_t)n, "%s%s",
                          i ? ", " : "; valid are ", known[i]);
    emit(COLL_LOG_WARN, "settings", message);
}

/* One item of COLL_LOG, "warn" or "select:debug". */
static void parse_item(const char *item, size_t length)
{
    const char *colon = memchr(item, ':', length);
    const char *word = colon ? colon + 1 : item;
    const size_t before = colon ? (size_t)(colon - item) : 0;
    coll_log_level level;
    char message[160];

    if (!find_level(word, length - (size_t)(word - item), &level)
        || before >= sizeof(subjects[0].name) || nsubjects == MAX_SUBJECTS) {
        snprintf(message, sizeof(message),
                 "COLL_LOG: \"%.*s\" is not off, error, warn, info or debug, "
                 "nor SUBJECT:LEVEL; ignored",
                 (int)(length < 64 ? length : 64), item);
        emit(COLL_LOG_WARN, "settings", message);
    } else if (colon) {
        memcpy(subjects[nsubjects].name, item, before);
        check_subject(subjects[nsubjects].name);
        subjects[nsubjects++].level = level;
    } else {
        general = level;
    }
}

static void parse_setting(void)
{
    const char *at = setting_text(SETTING_LOG);
    while (*at) {
        size_t length = strcspn(at, ",");
        parse_item(at, length);
        at += length + (at[length] == ',');
    }
    if (!strcmp(setting_text(SETTING_EXPLAIN), "1"))
        parse_item("explain:info", strlen("explain:info"));
}

static coll_log_level level_of(const char *subject)
{
    pthread_once(&once, parse_setting);
    for (int i = 0; i < nsubjects; i++)
        if (!strcmp(subjects[i].name, subject))
            return subjects[i].level;
    /* A hook without a level wants what a person would want to see. */
    return hook && general == COLL_LOG_OFF ? COLL_LOG_WARN : general;
}

void log_line(coll_log_level level, const char *subject, const char *format,
              ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    if (level > level_of(subject))
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    emit(level, subject, line);
}

coll_status fail(coll_status status, const char *subject, const char *format,
                 ...)
{
    char line[LINE_MAX_BYTES]; /* an argument may be the old sentence */
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    memcpy(sentence, line, sizeof(sentence));
    log_line(COLL_LOG_ERROR, subject, "%s", sentence);
    return status;
}

const char *fail_sentence(void)
{
    return sentence;
}

void coll_log_set_hook(coll_log_hook *new_hook, void *context)
{
    hook = new_hook;
    hook_context = context;
}
