/* SPDX-License-Identifier: MIT */
/* What differs from the settings for one communicator. */
#include "comm/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* Programs may have been built with a header of fewer fields, or of more: what
 * this library does not know must have been left alone. */
static coll_status take(const coll_config *given, coll_config *mine)
{
    *mine = (coll_config)COLL_CONFIG_INITIALIZER;
    if (!given)
        return COLL_OK;
    const size_t size = given->size;
    if (size < sizeof(given->size) || size > 4096)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_config: size is %zu: was it set by "
                    "COLL_CONFIG_INITIALIZER?",
                    size);
    for (size_t i = sizeof(*mine); i < size; i++)
        if (((const unsigned char *)given)[i])
            return fail(COLL_ERR_UNSUPPORTED, "comm",
                        "coll_config: it sets something that libcoll %d does "
                        "not know",
                        coll_version());
    memcpy(mine, given, size < sizeof(*mine) ? size : sizeof(*mine));
    return COLL_OK;
}

static coll_status take_seconds(const char *name, double given, double least,
                                double most, double *seconds)
{
    if (given == 0)
        return COLL_OK;
    if (!(given >= least && given <= most))
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_config: %s is %g, valid is %g to %g, or 0 for the "
                    "setting",
                    name, given, least, most);
    *seconds = given;
    return COLL_OK;
}

coll_status config_rules(coll_comm *c, const char *text, const char *source)
{
    char *copy = strdup(text ? text : "");
    if (!copy)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for rules");
    const coll_status status = select_rules(&c->select, copy, source);
    if (status < 0) {
        free(copy);
        return status;
    }
    free(c->rules);
    c->rules = copy;
    return COLL_OK;
}

const char *const config_determinisms[NDETERMINISMS] = {"off", "run", "layout",
                                                        "full"};

coll_status config_determinism(coll_comm *c, const char *text,
                               const char *source)
{
    int i = 0;
    while (i < NDETERMINISMS && strcmp(text, config_determinisms[i]))
        i++;
    if (i == NDETERMINISMS)
        return fail(COLL_ERR_INVALID, "comm",
                    "%s=%s is not off, run, layout or full", source, text);
    c->determinism = (enum determinism)i;
    return COLL_OK;
}

coll_status config_apply(coll_comm *c, const coll_config *given)
{
    coll_config mine;
    coll_status status = take(given, &mine);
    if (status == COLL_OK)
        status = take_seconds("op_seconds", mine.op_seconds, 1e-3, 1.0 / 0.0,
                              &c->op_seconds);
    if (status == COLL_OK)
        status = take_seconds("join_seconds", mine.join_seconds, 0.01, 86400,
                              &c->join_seconds);
    if (status == COLL_OK && mine.algorithm)
        status = config_rules(c, mine.algorithm, "coll_config.algorithm");
    if (status == COLL_OK && mine.determinism)
        status =
            config_determinism(c, mine.determinism, "coll_config.determinism");
    return status;
}

coll_status config_inherit(coll_comm *c, const coll_comm *parent)
{
    c->op_seconds = parent->op_seconds;
    c->join_seconds = parent->join_seconds;
    c->determinism = parent->determinism;
    return config_rules(c, parent->rules, "coll_comm_split");
}
