/* SPDX-License-Identifier: MIT */
/* coll_sim --costs: what plans and rehearsals cost the computer that makes
 * them, measured; nothing here is simulated time. */
#include <stdlib.h>

#include "programs/sim.h"
#include "programs/chart.h"

void sim_print_costs(const struct sim_results *r)
{
    char text[256];
    world_print(r->trials[r->n - 1].world, text, sizeof(text));
    printf("%s on %s: what it takes here to plan and to rehearse, measured: "
           "%s%s\n\n",
           kind_names[r->kind], r->job->options.cluster,
           r->job->nnranks > 1 ? "up to " : "", text);
    printf("%7s %10s  %-24s %-11s %8s %11s %11s %12s %12s\n", "ranks", "bytes",
           "algorithm", "rank order", "segments", "plan us", "plan bytes",
           "messages", "rehearse ms");
    for (int i = 0; i < r->n; i++) {
        const struct trial *t = &r->trials[i];
        printf("%7d %10zu  %-24s %-11s %8d %11.1f %11zu %12.0f ",
               t->world->nranks, t->bytes, t->algo->name,
               layout_order_names[t->order], t->segments, t->plan_seconds * 1e6,
               t->plan_bytes, t->messages);
        if (t->state == TRIAL_DONE)
            printf("%12.2f\n", t->rehearse_seconds * 1e3);
        else
            printf("%12s\n", "-");
    }
}

static double x_of(const struct sim_results *r, const struct trial *t)
{
    return r->job->nnranks > 1 ? t->world->nranks : (double)t->bytes;
}

/* One curve, of all trials with an algorithm and an order. */
static void fill(const struct sim_results *r, const struct trial *of,
                 bool of_plans, struct chart *chart)
{
    struct chart_series *s = &chart->series[chart->nseries++];
    s->points = calloc((size_t)r->n, sizeof(*s->points));
    if (!s->points)
        sim_fail("no memory for the picture");
    for (int i = 0; i < r->n; i++) {
        const struct trial *t = &r->trials[i];
        const double y = of_plans ? t->plan_seconds : t->rehearse_seconds;
        if (t->algo == of->algo && t->order == of->order && y > 0)
            s->points[s->n++] = (struct chart_point){x_of(r, t), y, false};
    }
    snprintf(s->name, sizeof(s->name), "%s, %s", of->algo->name,
             layout_order_names[of->order]);
}

static void fill_all(const struct sim_results *r, struct chart charts[2])
{
    for (int i = 0; i < r->n; i++) {
        bool seen = false;
        for (int k = 0; k < i && !seen; k++)
            seen = r->trials[k].algo == r->trials[i].algo
                   && r->trials[k].order == r->trials[i].order;
        if (seen)
            continue;
        fill(r, &r->trials[i], true, &charts[0]);
        fill(r, &r->trials[i], false, &charts[1]);
    }
}

void sim_plot_costs(const struct sim_results *r)
{
    char title[128], subtitle[512], text[256];
    const bool several = r->job->nnranks > 1;
    struct whole_file f;
    world_print(r->trials[r->n - 1].world, text, sizeof(text));
    snprintf(title, sizeof(title), "%s: to plan and to rehearse, measured",
             kind_names[r->kind]);
    snprintf(subtitle, sizeof(subtitle), "%s%s; %s; one processor",
             several ? "up to " : "", text, r->job->options.cluster);
    struct chart charts[2] = {
        {.title = title,
         .subtitle = subtitle,
         .y_label = "to write one rank's plan",
         .x_label = several ? "ranks" : "vector length",
         .x_scale = several ? CHART_NUMBERS : CHART_BYTES,
         .y_scale = CHART_SECONDS},
    };
    charts[1] = charts[0];
    charts[1].y_label = "to rehearse all ranks once";
    for (int i = 0; i < 2; i++) {
        charts[i].series = calloc((size_t)r->n, sizeof(*charts[i].series));
        if (!charts[i].series)
            sim_fail("no memory for the picture");
    }
    fill_all(r, charts);
    sim_open_file(r->job, &f, r->job->options.plot);
    const bool ok = chart_write(charts, 2, f.stream);
    sim_publish(r->job, &f, ok);
    for (int i = 0; i < 2; i++) {
        for (int s = 0; s < charts[i].nseries; s++)
            free(charts[i].series[s].points);
        free(charts[i].series);
    }
}
