/* SPDX-License-Identifier: MIT */
#include "breakdown.h"

#include "clock.h"

static const char *const part_names[PARTS] = {
    [PART_READ] = "reading images",
    [PART_INITIALISE] = "initialising",
    [PART_INSIDE] = "communication",
    [PART_DATA] = "communication",
    [PART_OUTSIDE] = "communication",
    [PART_FORWARD] = "forward",
    [PART_BACKWARD] = "backward",
    [PART_UPDATE] = "update",
    [PART_CENTRE] = "update of the centre",
    [PART_TEST] = "testing",
    [PART_REST] = "rest",
};

const char *part_name(enum part part)
{
    return part_names[part];
}

void breakdown_start(struct breakdown *b, double began)
{
    const double start = began > 0 ? began : clock_now();
    *b = (struct breakdown){.began = start,
                            .since = start,
                            .entered = start,
                            .part = PART_INITIALISE};
}

/* The rest has no event in a trace: it is what is left blank. */
enum part breakdown_enter(struct breakdown *b, enum part part)
{
    if (!b)
        return PART_REST;
    const double now = clock_now();
    const enum part before = b->part;
    b->seconds[before] += now - b->entered;
    b->entered = now;
    if (part == before)
        return before;
    if (b->trace && before != PART_REST)
        trace_add(b->trace,
                  (struct trace_event){
                      "part", part_names[before], -1, {b->since, now}
        });
    b->part = part;
    b->since = now;
    return before;
}

void breakdown_charge(struct breakdown *b, enum part part, double seconds)
{
    if (!b)
        return;
    b->seconds[b->part] -= seconds;
    b->seconds[part] += seconds;
}

double breakdown_communication(const double seconds[PARTS])
{
    return seconds[PART_INSIDE] + seconds[PART_DATA] + seconds[PART_OUTSIDE];
}

/* What the table and the log have: forward and backward are one. */
static const struct row {
    enum part first, last;
    const char *key, *text;
} rows[] = {
    {PART_READ,       PART_READ,       "read",    "1 reading images"             },
    {PART_INITIALISE, PART_INITIALISE, "init",    "2 initialising"               },
    {PART_INSIDE,     PART_INSIDE,     "inside",  "3 exchange inside a host"     },
    {PART_DATA,       PART_DATA,       "data",    "4 waiting for the reader"     },
    {PART_OUTSIDE,    PART_OUTSIDE,    "outside", "5 exchange, hosts and servers"},
    {PART_FORWARD,    PART_BACKWARD,   "compute", "6 forward and backward"       },
    {PART_UPDATE,     PART_UPDATE,     "update",  "7 update of the weights"      },
    {PART_CENTRE,     PART_CENTRE,     "centre",  "8 update of the centre"       },
    {PART_TEST,       PART_TEST,       "test",    "  evaluation and checkpoints" },
    {PART_REST,       PART_REST,       "rest",    "  rest"                       },
};
enum { NROWS = sizeof(rows) / sizeof(rows[0]) };

static double sum(const double seconds[PARTS], enum part first, enum part last)
{
    double all = 0;
    for (int i = (int)first; i <= (int)last; i++)
        all += seconds[i];
    return all;
}

static void print_row(const struct breakdown_sums *s, struct row row,
                      double all, FILE *to)
{
    const double mean = sum(s->mean, row.first, row.last);
    fprintf(to, "  %-30s%12.3f%8.1f", row.text, mean, 100 * mean / all);
    if (s->nranks > 1)
        fprintf(to, "%12.3f%12.3f", sum(s->least, row.first, row.last),
                sum(s->most, row.first, row.last));
    fputc('\n', to);
}

void breakdown_print(const struct breakdown_sums *s, FILE *to)
{
    const double all = sum(s->mean, 0, PARTS - 1),
                 talk = breakdown_communication(s->mean),
                 work = sum(s->mean, PART_FORWARD, PART_CENTRE);
    fprintf(to, "%-32s%12s%8s", "part of the run", "seconds", "%");
    if (s->nranks > 1)
        fprintf(to, "%12s%12s  (of %d ranks the mean, the least, the most)",
                "least", "most", s->nranks);
    fputc('\n', to);
    for (int i = 0; i < NROWS; i++)
        print_row(s, rows[i], all, to);
    fprintf(to, "  %-30s%12.3f%8.1f\n", "  all", all, 100.0);
    fprintf(to,
            "communication (3 to 5) %.1f %%, computation (6 to 8) %.1f %% "
            "of both\n",
            talk + work > 0 ? 100 * talk / (talk + work) : 0,
            talk + work > 0 ? 100 * work / (talk + work) : 0);
}

void breakdown_write(const double seconds[PARTS], double scale, FILE *to)
{
    for (int i = 0; i < NROWS; i++)
        fprintf(to, "%s\"%s\": %.6g", i ? ", " : "{", rows[i].key,
                scale * sum(seconds, rows[i].first, rows[i].last));
    fputc('}', to);
}
