/* SPDX-License-Identifier: MIT */
#include "comm/phases.h"

#include <stdio.h>

#include "base/log.h"
#include "comm/comm.h"

void phases_begin(struct probe_cost *cost, enum probe_phase phase)
{
    const double now = comm_clock();
    if (cost->since > 0)
        cost->parts[cost->phase].seconds += now - cost->since;
    cost->since = phase < PHASES ? now : 0;
    cost->phase = phase < PHASES ? phase : PHASE_GREET;
}

void phases_sent(struct probe_cost *cost, unsigned messages, size_t bytes)
{
    cost->messages += messages;
    cost->bytes += messages * bytes;
    cost->parts[cost->phase].bytes += messages * bytes;
}

void phases_waited(struct probe_cost *cost, unsigned times)
{
    cost->parts[cost->phase].waits += times;
}

void phases_tell(const struct probe_cost *cost)
{
    static const char *const names[PHASES] = {"greeting", "latencies", "rates",
                                              "inside",   "exchanges", "trains",
                                              "crowd"};
    char text[PHASES * 64] = "";
    size_t length = 0;
    for (int i = 0; i < PHASES; i++) {
        const struct probe_part *part = &cost->parts[i];
        if (part->seconds > 0)
            length += (size_t)snprintf(
                text + length, sizeof(text) - length,
                "%s%s %.1f ms, %u waits, %zu KiB", length ? "; " : "", names[i],
                1e3 * part->seconds, part->waits, part->bytes >> 10);
    }
    log_line(COLL_LOG_DEBUG, "probe", "%s", text);
}
