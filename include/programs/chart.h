/* SPDX-License-Identifier: MIT */
/* Curves on axes, as a PNG: up to a few panels side by side. Not installed. */
#ifndef PROGRAMS_CHART_H
#define PROGRAMS_CHART_H

#include <stdbool.h>
#include <stdio.h>

enum chart_scale {
    CHART_BYTES,   /* powers of two, with units */
    CHART_NUMBERS, /* powers of two */
    CHART_SECONDS, /* powers of ten, with units */
    CHART_PERCENT, /* linear from 0 */
};

struct chart_point {
    double x, y;
    bool marked; /* with a ring, and a band from one to the next */
};

struct chart_series {
    char name[256];             /* a line each, where several curves are one */
    struct chart_point *points; /* by ascending x */
    int n;
    bool reference; /* dashed and grey: no result, but what one is held to */
    int of; /* reference: 1 + the series that it has the colour of; 0: grey */
};

struct chart {
    const char *title, *subtitle, *x_label, *y_label;
    const char *marked; /* what a ring means; NULL: nothing */
    enum chart_scale x_scale, y_scale;
    double y_most; /* what is above is cut off; 0: nothing */
    struct chart_series *series;
    int nseries;
};

/* False, with errno: could not be written. */
bool chart_write(const struct chart *charts, int ncharts, FILE *file);

#endif
