/* SPDX-License-Identifier: MIT */
/* The tables behind coll_info. */
#include "algo/algo.h"
#include "base/env.h"
#include "coll/coll.h"
#include "transport/transport.h"

int coll_setting_get(int i, coll_setting_info *info)
{
    if (i < 0 || i >= NSETTINGS || !info)
        return 0;
    const struct setting_value v = setting_get((enum setting)i);
    *info =
        (coll_setting_info){v.name, v.value, v.fallback, v.meaning, v.source};
    return 1;
}

int coll_algorithm_get(int i, coll_algorithm_info *info)
{
    if (i < 0 || i >= nalgos || !info)
        return 0;
    *info = (coll_algorithm_info){kind_names[algos[i].kind], algos[i].name,
                                  algos[i].when};
    return 1;
}

const char *coll_transport_get(int i)
{
    for (int t = 0; t < ntransports; t++)
        if (!transports[t]->simulated && i-- == 0)
            return transports[t]->name;
    return 0;
}
