/* SPDX-License-Identifier: MIT */
/* OpenBLAS chooses its kernels itself and has names of its own for them. */
#include <cblas.h>
#include <strings.h>

#include "kernels/gemm.h"

const char *gemm_core(void)
{
    return openblas_get_corename();
}

const char *gemm_isa(void)
{
    static const struct {
        const char *core, *isa;
    } known[] = {
        {"SkylakeX",       "avx512"},
        {"Cooperlake",     "avx512"},
        {"Sapphirerapids", "avx512"},
        {"Haswell",        "avx2"  },
        {"Zen",            "avx2"  },
        {"Excavator",      "avx2"  },
        {"Sandybridge",    "avx"   },
        {"Bulldozer",      "avx"   },
        {"Piledriver",     "avx"   },
        {"Steamroller",    "avx"   },
        {"Prescott",       "sse"   },
        {"Core2",          "sse"   },
        {"Penryn",         "sse"   },
        {"Dunnington",     "sse"   },
        {"Nehalem",        "sse"   },
        {"Barcelona",      "sse"   },
        {"Bobcat",         "sse"   },
        {"Atom",           "sse"   },
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcasecmp(gemm_core(), known[i].core))
            return known[i].isa;
#if defined(__aarch64__)
    return "neon";
#else
    return NULL;
#endif
}
