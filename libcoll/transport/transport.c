/* SPDX-License-Identifier: MIT */
#include "transport/transport.h"

#include <string.h>

#define TRANSPORT(name) extern const struct transport_ops transport_##name;
#include "transport/transports.def"
#undef TRANSPORT

#define TRANSPORT(name) &transport_##name,
const struct transport_ops *const transports[] = {
#include "transport/transports.def"
};
#undef TRANSPORT
const int ntransports = sizeof(transports) / sizeof(transports[0]);

const struct transport_ops *transport_find(const char *name)
{
    for (int i = 0; i < ntransports; i++)
        if (!strcmp(transports[i]->name, name))
            return transports[i];
    return NULL;
}
