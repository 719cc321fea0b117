/* SPDX-License-Identifier: MIT */
/* Paints what draw_layout.c has put in its place; the same for all formats. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "programs/draw.h"

struct colour {
    double red, green, blue;
};

static const struct colour black = {0.13, 0.15, 0.18},
                           grey = {0.45, 0.48, 0.52},
                           link_colour = {0.80, 0.35, 0.02},
                           rank_colour = {0.00, 0.42, 0.67}, white = {1, 1, 1};

/* Pale, from outside to inside; a frame is the same, darker. */
static const struct colour fills[COLL_TOPO_NKINDS] = {
    [COLL_TOPO_CLUSTER] = {0.965, 0.970, 0.980},
    [COLL_TOPO_LEVEL] = {0.915, 0.930, 0.955},
    [COLL_TOPO_HOST] = {0.985, 0.985, 0.985},
    [COLL_TOPO_PACKAGE] = {0.910, 0.945, 0.900},
    [COLL_TOPO_NUMA] = {0.995, 0.955, 0.850},
    [COLL_TOPO_GROUP] = {0.945, 0.925, 0.965},
    [COLL_TOPO_L3] = {0.875, 0.920, 0.970},
    [COLL_TOPO_L2] = {0.800, 0.875, 0.950},
    [COLL_TOPO_CORE] = {0.970, 0.975, 0.985},
    [COLL_TOPO_PU] = {1,     1,     1    },
};

static void set_colour(cairo_t *c, const struct colour *colour, double part)
{
    cairo_set_source_rgb(c, colour->red * part, colour->green * part,
                         colour->blue * part);
}

static void rounded(cairo_t *c, double w, double h, double r)
{
    const double right = acos(0);
    cairo_new_path(c);
    cairo_arc(c, w - r, r, r, -right, 0);
    cairo_arc(c, w - r, h - r, r, 0, right);
    cairo_arc(c, r, h - r, r, right, 2 * right);
    cairo_arc(c, r, r, r, 2 * right, 3 * right);
    cairo_close_path(c);
}

/* In the middle of w from x on, if centred. */
static void write_text(const struct drawing *d, cairo_t *c, const char *text,
                       double size, bool bold, double x, double y,
                       double centred)
{
    if (centred)
        x += (centred - draw_text_width(d, text, size, bold)) / 2;
    draw_font(c, size, bold);
    cairo_move_to(c, x, y);
    cairo_show_text(c, text);
}

static void frame(cairo_t *c, const struct box *b, const struct colour *fill,
                  double radius)
{
    rounded(c, b->w, b->h, radius);
    set_colour(c, fill, 1);
    cairo_fill_preserve(c);
    set_colour(c, fill, 0.72);
    cairo_set_line_width(c, 1);
    cairo_stroke(c);
}

static void paint_cell(const struct drawing *d, cairo_t *c, const struct box *b)
{
    const coll_topo_object *pu =
        coll_topo_get(d->topo, coll_topo_pu(d->topo, draw_pu_of(d, b->object)));
    const bool taken = d->ranks && d->ranks[pu->logical] > 0;
    char text[96];
    frame(c, b, taken ? &rank_colour : &fills[COLL_TOPO_PU], 3);
    if (!pu->usable) { /* crossed out */
        cairo_move_to(c, 3, b->h - 3);
        cairo_line_to(c, b->w - 3, 3);
        cairo_stroke(c);
    }
    draw_cell_text(d, b->object, text, sizeof(text));
    set_colour(c, taken ? &white : &grey, 1);
    write_text(d, c, text, 10.5, taken, 0, b->h / 2 + 4, b->w);
}

/* A sibling that is not drawn: its name, upright where the tab is narrow. */
static void paint_tab(const struct drawing *d, cairo_t *c, const struct box *b)
{
    const bool dots = b->object < 0;
    if (!dots)
        frame(c, b, &fills[coll_topo_get(d->topo, b->object)->kind], 5);
    set_colour(c, &grey, 1);
    if (b->h <= b->w) {
        write_text(d, c, b->label, 11, false, 0, b->h / 2 + 4, b->w);
        return;
    }
    cairo_save(c);
    cairo_translate(c, b->w / 2 + 4, b->h);
    cairo_rotate(c, -acos(0));
    write_text(d, c, b->label, 11, false, 0, 0, b->h);
    cairo_restore(c);
}

static void line(cairo_t *c, double x0, double y0, double x1, double y1)
{
    cairo_move_to(c, x0, y0);
    cairo_line_to(c, x1, y1);
    cairo_stroke(c);
}

/* The line above a row of parts, and from it down to each. */
static void paint_row(cairo_t *c, const struct box *b, int first, bool drops)
{
    const double top = b->inside[first].y, y = top - DRAW_DROP;
    double right = drops ? 0 : b->w - DRAW_PAD / 2.0;
    if (b->inside[first].object < 0)
        return;
    for (int i = first; i < b->ninside && b->inside[i].y <= top; i++) {
        const double x = b->inside[i].x + b->inside[i].w / 2;
        if (!drops || b->inside[i].object < 0)
            continue;
        line(c, x, y, x, top);
        right = x;
    }
    line(c, DRAW_PAD / 2.0, y, right, y);
}

static void paint_bus(const struct drawing *d, cairo_t *c, const struct box *b)
{
    const bool drops = b->inside[0].style != BOX_CELL;
    coll_topo_link link = {.shared = 0};
    double y = b->inside[0].y, last = y;
    coll_topo_level_link(d->topo, b->inside[0].object, &link);
    set_colour(c, &link_colour, 1);
    write_text(d, c, b->bus_label, 12, false, DRAW_PAD, y - DRAW_DROP - 8, 0);
    cairo_set_line_width(c, link.shared ? 4 : 2);
    paint_row(c, b, 0, drops);
    for (int i = 1; drops && i < b->ninside; i++)
        if (b->inside[i].y > last && b->inside[i].x <= DRAW_PAD + 1
            && b->inside[i].object >= 0) {
            last = b->inside[i].y;
            paint_row(c, b, i, true);
        }
    if (last > y) {
        const double x = DRAW_PAD / 2.0;
        line(c, x, y - DRAW_DROP, x, last - DRAW_DROP);
    }
}

static void paint_box(const struct drawing *d, cairo_t *c, const struct box *b)
{
    cairo_save(c);
    cairo_translate(c, b->x, b->y);
    if (b->style == BOX_CELL) {
        paint_cell(d, c, b);
    } else if (b->style == BOX_TAB) {
        paint_tab(d, c, b);
    } else {
        const coll_topo_object *o = coll_topo_get(d->topo, b->object);
        frame(c, b, &fills[o->kind], 5);
        set_colour(c, b->style == BOX_NOTE ? &grey : &black, 1);
        if (b->style == BOX_NOTE)
            write_text(d, c, b->label, 11, false, DRAW_PAD, b->h / 2 + 4, 0);
        else if (b->ninside && b->inside[0].y >= DRAW_TITLE)
            write_text(d, c, b->label, 12, true, DRAW_PAD, 15, 0);
        if (b->bus)
            paint_bus(d, c, b);
    }
    for (int i = 0; i < b->ninside; i++)
        paint_box(d, c, &b->inside[i]);
    cairo_restore(c);
}

/* "1024 hosts, 4096 NUMA nodes, ..." */
static void counts_text(const coll_topo *topo, char *text, size_t bytes)
{
    static const struct {
        coll_topo_kind kind;
        const char *one, *many;
    } kinds[] = {
        {COLL_TOPO_HOST,    "host",      "hosts"     },
        {COLL_TOPO_PACKAGE, "package",   "packages"  },
        {COLL_TOPO_NUMA,    "NUMA node", "NUMA nodes"},
        {COLL_TOPO_CORE,    "core",      "cores"     },
        {COLL_TOPO_PU,      "PU",        "PUs"       },
    };
    text[0] = '\0';
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        const int n = coll_topo_count(topo, kinds[k].kind);
        const size_t used = strlen(text);
        if (n)
            snprintf(text + used, bytes - used, "%s%d %s", used ? ", " : "", n,
                     n == 1 ? kinds[k].one : kinds[k].many);
    }
}

static void paint_legend(const struct drawing *d, cairo_t *c)
{
    char text[160];
    const double y = d->height - 11;
    set_colour(c, &grey, 1);
    const int hosts = coll_topo_count(d->topo, COLL_TOPO_HOST);
    if (d->ranks)
        snprintf(text, sizeof(text), "Blue: where the %d rank%s would be%s",
                 d->nranks, d->nranks == 1 ? "" : "s",
                 d->most > 1 ? "; 0+3 is rank 0 and three more" : "");
    else if (hosts > 1 && hosts == coll_topo_count(d->topo, COLL_TOPO_PU))
        snprintf(text, sizeof(text), "A small box is one host");
    else
        snprintf(
            text, sizeof(text),
            "A small box is one processing unit, with the system's number");
    write_text(d, c, text, 11, false, d->root.x, y, 0);
}

/* Cut with "..." to what fits. */
static void paint_title(const struct drawing *d, cairo_t *c)
{
    char title[256];
    size_t length = strcspn(d->title, "\n");
    length = length < sizeof(title) - 4 ? length : sizeof(title) - 4;
    snprintf(title, sizeof(title), "%.*s", (int)length, d->title);
    while (length > 8
           && draw_text_width(d, title, 17, true) > d->width - 2 * d->root.x) {
        length--;
        snprintf(title, sizeof(title), "%.*s...", (int)length, d->title);
    }
    set_colour(c, &black, 1);
    write_text(d, c, title, 17, true, d->root.x, 25, 0);
}

void draw_paint(const struct drawing *d, cairo_t *c)
{
    char counts[160];
    set_colour(c, &white, 1);
    cairo_paint(c);
    paint_title(d, c);
    counts_text(d->topo, counts, sizeof(counts));
    set_colour(c, &grey, 1);
    write_text(d, c, counts, 12, false, d->root.x, 44, 0);
    paint_box(d, c, &d->root);
    paint_legend(d, c);
}
