/* SPDX-License-Identifier: MIT */
/* A machine or cluster as a picture: boxes in boxes, links with their figures,
 * and where ranks are. Of equal siblings that are too many the first is drawn,
 * the others are told. draw_layout.c decides what is shown and where,
 * draw_paint.c paints it, draw.c writes the file. */
#ifndef PROGRAMS_DRAW_H
#define PROGRAMS_DRAW_H

#include <cairo.h>
#include <stdbool.h>
#include <stddef.h>

#include "coll/topo.h"

enum draw_format { DRAW_SVG, DRAW_PNG };

struct draw_request {
    const coll_topo *topo;
    const char *title;
    int nranks; /* placed as by coll_topo_place(); 0: none are shown */
};

/* Writes the picture; the file appears whole. false: the sentence says why.
 * Ends the program with status 1 if memory is short or no rank can be placed.
 */
bool draw_file(const struct draw_request *, enum draw_format, const char *path,
               char *error, size_t error_bytes);

/* --- between the parts ---------------------------------------------------- */

enum box_style {
    BOX_FULL, /* with what it holds */
    BOX_CELL, /* one PU, or a host of which nothing more is known */
    BOX_NOTE, /* memory without cores */
    BOX_TAB,  /* a sibling of the one before, which is alike, or "..." */
};

struct box {
    enum box_style style;
    int object; /* -1: "..." */
    char label[96];
    double x, y, w, h; /* in pixels, from the corner of the box around */
    double text;       /* as wide as this with its margins; not of BOX_FULL */
    struct box *inside;
    int ninside, cells; /* cells: how much is drawn inside */
    bool bus;           /* its parts are joined by links */
    char bus_label[160];
};

struct drawing {
    const coll_topo *topo;
    const char *title;
    cairo_t *measure;        /* knows how wide a text is */
    int nranks, most;        /* most: ranks on one core */
    int *first_rank, *ranks; /* of each PU; NULL without ranks */
    int *ranks_before;       /* on PUs that stand before object i */
    double cell_width;
    struct box root; /* its x and y are in the picture */
    double width, height;
};

enum {
    DRAW_PAD = 9,
    DRAW_GAP = 6,
    DRAW_TITLE = 20, /* height of a box's own label */
    DRAW_CELL = 19,
    DRAW_BUS = 42,  /* from a box's label to the parts on the bus */
    DRAW_DROP = 14, /* from the bus down to a part */
};

/* Sets the font by which a text is measured and painted. */
void draw_font(cairo_t *, double size, bool bold);
double draw_text_width(const struct drawing *, const char *text, double size,
                       bool bold);

void draw_layout(struct drawing *, const struct draw_request *);
void draw_paint(const struct drawing *, cairo_t *);
void draw_free(struct drawing *);

/* What the cell of a PU says. */
void draw_cell_text(const struct drawing *, int object, char *text,
                    size_t bytes);

/* The PU that a cell stands for, by its logical number. */
int draw_pu_of(const struct drawing *, int object);

#endif
