/* SPDX-License-Identifier: MIT */
/* Draws curves for the scripts here: draw_chart FILE.png < CHARTS.json
 *
 * [ { "title": "...", "subtitle": "...", "x_label": "...", "y_label": "...",
 *     "x": "bytes" | "numbers", "y": "seconds" | "numbers" | "percent",
 *     "series": [ { "name": "...", "reference": true, "of": 1,
 *                   "points": [[x, y], ...] } ] } ]
 *
 * Each chart is a panel; title and subtitle are the first one's. reference and
 * of are chart.h's, and may be left out. Not installed. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "programs/chart.h"
#include "programs/whole_file.h"

enum { CHARTS_MAX = 4 };

static _Noreturn void fail(const char *sentence)
{
    fprintf(stderr, "draw_chart: %s\n", sentence);
    exit(1);
}

static char *read_all(FILE *from)
{
    size_t room = 1 << 16, length = 0;
    char *text = NULL;
    do {
        room *= 2;
        char *more = realloc(text, room);
        if (!more)
            fail("no memory");
        text = more;
        length += fread(text + length, 1, room - 1 - length, from);
    } while (length == room - 1);
    text[length] = '\0';
    return text;
}

/* A text, or "" if it is missing. */
static const char *words(const cJSON *of, const char *key)
{
    const char *found =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(of, key));
    return found ? found : "";
}

static enum chart_scale scale(const cJSON *of, const char *key)
{
    static const char *const names[] = {"bytes", "numbers", "seconds",
                                        "percent"};
    const char *name = words(of, key);
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, names[i]))
            return (enum chart_scale)i;
    fail("x or y: valid is bytes, numbers, seconds or percent");
}

static double number(const cJSON *list, int i)
{
    const cJSON *item = cJSON_GetArrayItem(list, i);
    if (!cJSON_IsNumber(item))
        fail("points: valid are pairs of numbers");
    return item->valuedouble;
}

static void *room_for(const cJSON *list, size_t bytes)
{
    void *room = calloc((size_t)cJSON_GetArraySize(list) + 1, bytes);
    if (!room)
        fail("no memory");
    return room;
}

static struct chart_series read_series(const cJSON *from)
{
    const cJSON *points = cJSON_GetObjectItemCaseSensitive(from, "points");
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(from, "of"), *point;
    struct chart_series s = {
        .points = room_for(points, sizeof(*s.points)),
        .reference =
            cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(from, "reference")),
        .of = cJSON_IsNumber(of) ? of->valueint : 0,
    };
    snprintf(s.name, sizeof(s.name), "%s", words(from, "name"));
    cJSON_ArrayForEach(point, points) s.points[s.n++] =
        (struct chart_point){number(point, 0), number(point, 1), false};
    return s;
}

static struct chart read_chart(const cJSON *from)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(from, "series"), *one;
    struct chart c = {
        .title = words(from, "title"),
        .subtitle = words(from, "subtitle"),
        .x_label = words(from, "x_label"),
        .y_label = words(from, "y_label"),
        .x_scale = scale(from, "x"),
        .y_scale = scale(from, "y"),
        .series = room_for(all, sizeof(*c.series)),
    };
    cJSON_ArrayForEach(one, all) c.series[c.nseries++] = read_series(one);
    for (int i = 0; i < c.nseries; i++)
        if (c.series[i].of < 0 || c.series[i].of > c.nseries)
            fail("of: valid is the number of a series, from 1");
    return c;
}

int main(int argc, char **argv)
{
    struct chart charts[CHARTS_MAX];
    struct whole_file file;
    char error[1024];
    int n = 0;
    if (argc != 2) {
        fputs("draw_chart: found no file or too many, valid is draw_chart "
              "FILE.png < CHARTS.json\n",
              stderr);
        return 2;
    }
    char *text = read_all(stdin);
    cJSON *root = cJSON_Parse(text);
    free(text);
    if (!cJSON_IsArray(root) || cJSON_GetArraySize(root) < 1
        || cJSON_GetArraySize(root) > CHARTS_MAX)
        fail("standard input is no JSON list of 1 to 4 charts");
    const cJSON *one;
    cJSON_ArrayForEach(one, root) charts[n++] = read_chart(one);
    if (!whole_file_begin(&file, argv[1], error, sizeof(error)))
        fail(error);
    errno = 0;
    const bool drawn = chart_write(charts, n, file.stream);
    if (!whole_file_end(&file, drawn, error, sizeof(error)))
        fail(error);
    for (int i = 0; i < n; i++) {
        for (int s = 0; s < charts[i].nseries; s++)
            free(charts[i].series[s].points);
        free(charts[i].series);
    }
    cJSON_Delete(root);
    return 0;
}
