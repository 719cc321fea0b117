/* SPDX-License-Identifier: MIT */
/* Curves of a training run as a PNG picture. */
#ifndef TRAINER_PLOT_H
#define TRAINER_PLOT_H

#include <stdbool.h>
#include <stddef.h>

struct plot_curve {
    const char *label;
    const double *x, *y; /* points with a y that is not finite are left out */
    int count;
    double red, green, blue;
    bool points; /* dots joined by a line, else a line */
};

struct plot_panel {
    const char *label; /* what the y axis shows */
    const struct plot_curve *curves;
    int ncurves;
    bool legend_low; /* the curves rise to where the legend would be */
};

/* Draws panels below each other over one x axis. -1 with one line in error. */
int plot_write(const char *path, const char *title, const char *x_label,
               const struct plot_panel *, int npanels, char *error,
               size_t error_bytes);

#endif
