/* SPDX-License-Identifier: MIT */
/* What of a machine is drawn, and where. Boxes are made from the outside in,
 * so that equal siblings can be left out, and sized from the inside out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/draw.h"

enum {
    MOST_CELLS = 400,   /* in equal siblings that are all drawn */
    MOST_UNEQUAL = 250, /* when unequal ones are cut short */
    WIDEST = 1580,
    FEW_CELLS = 24, /* of a row that is cut short */
    TAB_WIDTH = 26,
    MARGIN = 16,
    HEAD = 54, /* title and counts */
    FOOT = 30, /* what the cells mean */
};

static void *need(void *memory)
{
    if (!memory) {
        fprintf(stderr, "coll_info: no memory to draw\n");
        exit(1);
    }
    return memory;
}

void draw_font(cairo_t *c, double size, bool bold)
{
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD
                                : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, size);
}

double draw_text_width(const struct drawing *d, const char *text, double size,
                       bool bold)
{
    cairo_text_extents_t e;
    draw_font(d->measure, size, bold);
    cairo_text_extents(d->measure, text, &e);
    return e.x_advance;
}

static const coll_topo_object *object_of(const struct drawing *d, int index)
{
    return coll_topo_get(d->topo, index);
}

/* Whose every part is one object: a core with one PU, a host of one core. */
static bool is_cell(const struct drawing *d, int index)
{
    const coll_topo_object *o = object_of(d, index);
    const int n = o->end - index;
    return o->kind == COLL_TOPO_PU || (o->kind == COLL_TOPO_CORE && n == 2)
           || (o->kind == COLL_TOPO_HOST && n == 3);
}

int draw_pu_of(const struct drawing *d, int object)
{
    return object_of(d, object_of(d, object)->end - 1)->logical;
}

/* --- labels ----------------------------------------------------------------*/

/* In the units in which it is round, as memory is sold. */
static void bytes_text(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    static const char *const binary[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    const bool round = bytes % 1000 == 0;
    double x = (double)bytes;
    int u = 0;
    for (; x >= (round ? 1000 : 1024) && u < 4; u++)
        x /= round ? 1000 : 1024;
    snprintf(text, size, x >= 100 ? "%.0f %s" : "%.3g %s", x,
             round ? units[u] : binary[u]);
}

static const char *kind_title(const struct drawing *d, int index)
{
    switch (object_of(d, index)->kind) {
    case COLL_TOPO_NUMA:
        return "NUMA";
    case COLL_TOPO_L3:
        return "L3";
    case COLL_TOPO_L2:
        return "L2";
    default:
        return coll_topo_name(d->topo, index);
    }
}

/* How many siblings stand before it: levels have no numbers of their own. */
static int number_in_parent(const struct drawing *d, int index)
{
    int n = 0;
    for (int i = object_of(d, index)->parent + 1; i < index;
         i = object_of(d, i)->end)
        n++;
    return n;
}

static void set_label(const struct drawing *d, struct box *b)
{
    const coll_topo_object *o = object_of(d, b->object);
    const char *name = o->kind == COLL_TOPO_HOST
                           ? coll_topo_host_name(d->topo, o->logical)
                           : NULL;
    char size[32] = "", number[32] = "";
    const int n = o->os_index >= 0             ? o->os_index
                  : o->kind == COLL_TOPO_LEVEL ? number_in_parent(d, b->object)
                                               : o->logical;
    if (o->bytes)
        bytes_text(o->bytes, size, sizeof(size));
    if (o->parent >= 0 && o->kind != COLL_TOPO_L2 && o->kind != COLL_TOPO_L3)
        snprintf(number, sizeof(number), " %d", n);
    if (name)
        snprintf(b->label, sizeof(b->label), "%s", name);
    else
        snprintf(b->label, sizeof(b->label), "%s%s%s%s",
                 kind_title(d, b->object), number, *size ? "  " : "", size);
    if (b->style == BOX_NOTE)
        strncat(b->label, ", no cores",
                sizeof(b->label) - strlen(b->label) - 1);
}

void draw_cell_text(const struct drawing *d, int object, char *text,
                    size_t bytes)
{
    const coll_topo_object *o = object_of(d, object);
    const int pu = draw_pu_of(d, object);
    const char *name = o->kind == COLL_TOPO_HOST
                           ? coll_topo_host_name(d->topo, o->logical)
                           : NULL;
    const int os = object_of(d, coll_topo_pu(d->topo, pu))->os_index;
    text[0] = '\0';
    if (d->ranks && d->ranks[pu] > 1)
        snprintf(text, bytes, "%d+%d", d->first_rank[pu], d->ranks[pu] - 1);
    else if (d->ranks && d->ranks[pu])
        snprintf(text, bytes, "%d", d->first_rank[pu]);
    else if (!d->ranks && name)
        snprintf(text, bytes, "%s", name);
    else if (!d->ranks)
        snprintf(text, bytes, "%d",
                 o->kind == COLL_TOPO_HOST ? o->logical : os);
}

/* "3 us, 3 GB/s for each host" */
static void link_text(const coll_topo_link *link, bool of_host, char *text,
                      size_t bytes)
{
    const double s = link->latency_seconds, b = link->bytes_per_second;
    const double per_second = s < 1e-6 ? 1e9 : s < 1e-3 ? 1e6 : 1e3;
    snprintf(text, bytes, "%.4g %s, %.4g %s %s", s * per_second,
             s < 1e-6   ? "ns"
             : s < 1e-3 ? "us"
                        : "ms",
             b / (b < 1e9 ? 1e6 : 1e9), b < 1e9 ? "MB/s" : "GB/s",
             !link->shared ? "for each host"
             : of_host     ? "shared by all that it sends"
                           : "shared by all hosts in it");
}

/* The parts of a level are joined; says how many there are, and the link. */
static void set_bus(const struct drawing *d, struct box *b)
{
    char figures[96] = "";
    coll_topo_link link;
    const int part = b->inside[0].object;
    const coll_topo_object *o = object_of(d, part);
    const int end = object_of(d, b->object)->end;
    int n = 0;
    if (o->level < 0 || coll_topo_level_link(d->topo, part, &link) != COLL_OK)
        return;
    for (int i = part; i < end; i = object_of(d, i)->end)
        n++;
    if (link.bytes_per_second > 0)
        link_text(&link, o->kind == COLL_TOPO_HOST, figures, sizeof(figures));
    b->bus = true;
    snprintf(b->bus_label, sizeof(b->bus_label), "%d x %s%s%s", n,
             coll_topo_name(d->topo, part), *figures ? ":  " : "", figures);
}

/* --- which boxes ---------------------------------------------------------- */

static int ranks_in(const struct drawing *d, int first, int end)
{
    return d->ranks_before ? d->ranks_before[end] - d->ranks_before[first] : 0;
}

/* The same things inside, and ranks in both or in none. */
static bool alike(const struct drawing *d, int a, int b)
{
    const int n = object_of(d, a)->end - a;
    if (object_of(d, b)->end - b != n
        || !ranks_in(d, a, a + n) != !ranks_in(d, b, b + n))
        return false;
    for (int i = 0; i < n; i++) {
        const coll_topo_object *x = object_of(d, a + i);
        const coll_topo_object *y = object_of(d, b + i);
        if (x->kind != y->kind || x->end - a != y->end - b
            || x->level != y->level || x->usable != y->usable
            || x->bytes != y->bytes)
            return false;
    }
    return true;
}

static struct box *add_box(struct box *b, int object, enum box_style style)
{
    /* Room doubles at each power of two. */
    if ((b->ninside & (b->ninside - 1)) == 0)
        b->inside =
            need(realloc(b->inside, (size_t)(b->ninside ? 2 * b->ninside : 1)
                                        * sizeof(*b->inside)));
    struct box *added = &b->inside[b->ninside++];
    *added = (struct box){.style = style, .object = object, .cells = 1};
    return added;
}

static void fill(const struct drawing *d, struct box *b);

static int add_object(const struct drawing *d, struct box *b, int object)
{
    const coll_topo_object *o = object_of(d, object);
    const bool empty = o->end == object + 1 && o->kind != COLL_TOPO_PU;
    struct box *added = add_box(b, object,
                                empty                ? BOX_NOTE
                                : is_cell(d, object) ? BOX_CELL
                                                     : BOX_FULL);
    set_label(d, added);
    if (added->style == BOX_FULL)
        fill(d, added);
    b->cells += added->cells;
    return added->cells;
}

/* A sibling that is told, not drawn; of a cell another cell. */
static void add_tab(const struct drawing *d, struct box *b, int object,
                    int left_out)
{
    const bool of_cells = b->inside[b->ninside - 1].style == BOX_CELL;
    struct box *tab = add_box(
        b, object, object >= 0 && is_cell(d, object) ? BOX_CELL : BOX_TAB);
    if (object >= 0)
        set_label(d, tab);
    else if (of_cells)
        snprintf(tab->label, sizeof(tab->label), "...");
    else
        snprintf(tab->label, sizeof(tab->label), ". . .  %d more", left_out);
    b->cells += 1;
}

/* Object number n of those that stand beside each other from first on. */
static int sibling(const struct drawing *d, int first, int n)
{
    for (; n > 0; n--)
        first = object_of(d, first)->end;
    return first;
}

/* The first of n alike siblings is there; the others as tabs. */
static void add_tabs(const struct drawing *d, struct box *b, int first, int n)
{
    int shown = 1;
    for (; is_cell(d, first) && shown < FEW_CELLS && shown < n; shown++)
        add_object(d, b, sibling(d, first, shown));
    if (shown < n && !is_cell(d, first))
        add_tab(d, b, sibling(d, first, shown++), 0);
    if (shown < n - 1)
        add_tab(d, b, n - shown == 2 ? sibling(d, first, n - 2) : -1,
                n - shown - 1);
    if (shown < n)
        add_tab(d, b, sibling(d, first, n - 1), 0);
}

/* Adds all that the box's object holds. */
static void fill(const struct drawing *d, struct box *b)
{
    const int end = object_of(d, b->object)->end;
    b->cells = 0;
    for (int i = b->object + 1, next; i < end; i = next) {
        int n = 1;
        next = object_of(d, i)->end;
        if (b->cells > MOST_UNEQUAL) {
            for (; next < end; next = object_of(d, next)->end)
                n++;
            add_tab(d, b, -1, n);
            break;
        }
        for (; next < end && alike(d, i, next); next = object_of(d, next)->end)
            n++;
        const int64_t cells = add_object(d, b, i);
        if (cells * n > MOST_CELLS)
            add_tabs(d, b, i, n);
        else
            for (int k = 1; k < n; k++)
                add_object(d, b, sibling(d, i, k));
    }
    set_bus(d, b);
}

/* --- where they are --------------------------------------------------------*/

static double title_height(const struct drawing *d, const struct box *b)
{
    /* Cores of a large machine are too small for a word. */
    const bool small =
        object_of(d, b->object)->kind == COLL_TOPO_CORE && d->root.cells > 64;
    return small ? 0 : DRAW_TITLE;
}

static double head_height(const struct drawing *d, const struct box *b)
{
    const double title = title_height(d, b);
    return (title ? title : DRAW_PAD / 2.0) + (b->bus ? DRAW_BUS : 0)
           + (title ? 2 : 0);
}

/* A part and the memory that is noted below it stand in one column. */
static int unit_end(const struct box *b, int first)
{
    int end = first + 1;
    while (end < b->ninside && b->inside[end].style == BOX_NOTE)
        end++;
    return end;
}

static void unit_size(const struct box *b, int first, int end, double *w,
                      double *h)
{
    *w = 0;
    *h = -DRAW_GAP;
    for (int i = first; i < end; i++) {
        *w = fmax(*w, b->inside[i].w);
        *h += b->inside[i].h + DRAW_GAP;
    }
}

static void place_unit(struct box *b, int first, int end, double x, double y)
{
    double w, h;
    unit_size(b, first, end, &w, &h);
    for (int i = first; i < end; i++) {
        b->inside[i].x = x;
        b->inside[i].y = y;
        b->inside[i].w = w;
        y += b->inside[i].h + DRAW_GAP;
    }
}

/* A tab is upright beside what it is a sibling of, and lies where a row begins
 * with it. */
static void shape_tab(struct box *b, int i, bool begins)
{
    struct box *part = &b->inside[i];
    if (part->style != BOX_TAB || b->inside[0].style == BOX_CELL)
        return;
    part->w = begins ? part->text : TAB_WIDTH;
    part->h = begins ? DRAW_CELL : part->text;
}

/* Upright tabs are as high as what they stand beside. */
static void stretch_row(struct box *b, int first, int end, double height)
{
    for (int i = first; i < end; i++)
        if (b->inside[i].style == BOX_TAB && i > first)
            b->inside[i].h = height;
}

/* Puts `columns` units beside each other; sets the size of the box. */
static void arrange(const struct drawing *d, struct box *b, int columns)
{
    const bool drops = b->bus && b->inside[0].style != BOX_CELL;
    double y = head_height(d, b), widest = 0;
    for (int i = 0; i < b->ninside;) {
        double x = DRAW_PAD, height = 0, w, h;
        const int first = i;
        for (int k = 0; k < columns && i < b->ninside; k++) {
            const int end = unit_end(b, i);
            shape_tab(b, i, i == first);
            unit_size(b, i, end, &w, &h);
            place_unit(b, i, end, x, y);
            x += w + DRAW_GAP;
            height = fmax(height, h);
            i = end;
        }
        stretch_row(b, first, i, height);
        widest = fmax(widest, x - DRAW_GAP);
        y += height + (drops && i < b->ninside ? 2 * DRAW_DROP : DRAW_GAP);
    }
    b->w = widest + DRAW_PAD;
    b->h = y - DRAW_GAP + DRAW_PAD;
}

static int count_units(const struct box *b)
{
    int n = 0;
    for (int i = 0; i < b->ninside; i = unit_end(b, i))
        n++;
    return n;
}

/* How far the box is from the shape that reads best; rows of unequal length
 * cost a little. */
static double ugliness(const struct box *b, int units, int columns)
{
    const double wide = b->w / (1.7 * b->h);
    const double gaps = (columns - units % columns) % columns;
    return fmax(wide, 1 / wide) + 0.6 * gaps / columns;
}

static bool has_tabs(const struct box *b)
{
    for (int i = 0; i < b->ninside; i++)
        if (b->inside[i].style == BOX_TAB && b->inside[0].style == BOX_FULL)
            return true;
    return false;
}

static void layout(const struct drawing *d, struct box *b, double most)
{
    const int units = count_units(b);
    double least = INFINITY;
    int best = 1;
    for (int i = 0; i < b->ninside; i++)
        if (b->inside[i].style == BOX_FULL) {
            layout(d, &b->inside[i], most - 2 * DRAW_PAD);
        } else {
            struct box *part = &b->inside[i];
            part->text =
                draw_text_width(d, part->label, 11, false) + 2 * DRAW_PAD;
            part->w = part->style == BOX_NOTE ? part->text : d->cell_width;
            part->h = DRAW_CELL;
        }
    for (int columns = 1; columns <= units; columns++) {
        arrange(d, b, columns);
        const double ugly = has_tabs(b) && columns == units && b->w <= most
                                ? 0
                                : ugliness(b, units, columns);
        if (ugly < least && (b->w <= most || columns == 1)) {
            least = ugly;
            best = columns;
        }
    }
    arrange(d, b, best);
    b->w = fmax(b->w, draw_text_width(d, b->label, 12, true) + 2 * DRAW_PAD);
    b->w =
        fmax(b->w, draw_text_width(d, b->bus_label, 12, false) + 4 * DRAW_PAD);
}

/* --- all of it ------------------------------------------------------------ */

static void place_ranks(struct drawing *d, int nranks)
{
    const int npus = coll_topo_count(d->topo, COLL_TOPO_PU);
    const int size = coll_topo_size(d->topo);
    int *pus = need(malloc((size_t)nranks * sizeof(int)));
    d->most = coll_topo_place(d->topo, nranks, pus);
    if (!d->most) {
        fprintf(stderr, "coll_info: no usable CPU to place a rank on\n");
        exit(1);
    }
    d->nranks = nranks;
    d->first_rank = need(calloc((size_t)npus, sizeof(int)));
    d->ranks = need(calloc((size_t)npus, sizeof(int)));
    d->ranks_before = need(calloc((size_t)size + 1, sizeof(int)));
    for (int r = nranks - 1; r >= 0; r--) {
        d->first_rank[pus[r]] = r;
        d->ranks[pus[r]]++;
    }
    for (int i = 0; i < size; i++) {
        const coll_topo_object *o = object_of(d, i);
        d->ranks_before[i + 1] =
            d->ranks_before[i]
            + (o->kind == COLL_TOPO_PU ? d->ranks[o->logical] : 0);
    }
    free(pus);
}

/* As wide as the longest text of a cell that is drawn. */
static double widest_cell(const struct drawing *d, const struct box *b)
{
    char text[96];
    double widest = 0;
    if (b->style == BOX_CELL) {
        draw_cell_text(d, b->object, text, sizeof(text));
        return draw_text_width(d, text, 10.5, true);
    }
    for (int i = 0; i < b->ninside; i++)
        widest = fmax(widest, widest_cell(d, &b->inside[i]));
    return widest;
}

void draw_layout(struct drawing *d, const struct draw_request *request)
{
    d->topo = request->topo;
    d->title = request->title;
    if (request->nranks)
        place_ranks(d, request->nranks);
    d->root = (struct box){.style = BOX_FULL};
    set_label(d, &d->root);
    fill(d, &d->root);
    d->cell_width = fmax(24, widest_cell(d, &d->root) + 7);
    layout(d, &d->root, WIDEST - 2 * MARGIN);
    d->root.x = MARGIN;
    d->root.y = HEAD;
    d->width = fmax(d->root.w, 440) + 2 * MARGIN;
    d->height = d->root.h + HEAD + FOOT;
}

static void free_inside(struct box *b)
{
    for (int i = 0; i < b->ninside; i++)
        free_inside(&b->inside[i]);
    free(b->inside);
}

void draw_free(struct drawing *d)
{
    free_inside(&d->root);
    free(d->first_rank);
    free(d->ranks);
    free(d->ranks_before);
}
