/* SPDX-License-Identifier: MIT */
#include "comma.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/comma.XXXXXX";

bool comma_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE",
                                        "fr_FR.UTF-8"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (setlocale(LC_ALL, names[i])
            && localeconv()->decimal_point[0] == ',')
            return true;
    return false;
}

/* What localedef makes takes a while, less for Latin-1 than for UTF-8, so it
 * serves all tests. */
void comma_make(void)
{
    char command[256];
    const bool here = comma_locale();
    setlocale(LC_ALL, "C");
    if (here || !mkdtemp(folder))
        return;
    snprintf(command, sizeof(command),
             "localedef -i de_DE -f ISO-8859-1 %s/de_DE >/dev/null 2>&1",
             folder);
    if (system(command) == 0)
        setenv("LOCPATH", folder, 1);
}

void comma_remove(void)
{
    char command[256];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    if (!strstr(folder, "XXXXXX") && system(command) != 0)
        fprintf(stderr, "%s: not removed\n", folder);
}
