/* SPDX-License-Identifier: MIT */
#include "dist/elastic.h"

void elastic_distance(float *e, const float *w, const float *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        e[i] = w[i] - c[i];
}

void elastic_pull(float *w, const float *e, float alpha, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w[i] -= alpha * e[i];
}

void elastic_centre(float *c, const float *s, float alpha, int workers,
                    size_t n)
{
    const float p = (float)workers;
    for (size_t i = 0; i < n; i++)
        c[i] += alpha * (s[i] - p * c[i]);
}

void elastic_meet(float *c, float *s, const float *w, float alpha, int workers,
                  size_t n)
{
    const float p = (float)workers;
    for (size_t i = 0; i < n; i++) {
        const float e = w[i] - c[i];
        c[i] += alpha * (s[i] - p * c[i]);
        s[i] = e;
    }
}
