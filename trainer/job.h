/* SPDX-License-Identifier: MIT */
/* Job files: the options of a program as a flat YAML mapping.
 *
 *     net: lenet
 *     data: fashion-mnist
 *     epochs: 2
 *     deterministic: true
 */
#ifndef TRAINER_JOB_H
#define TRAINER_JOB_H

#include "programs/options.h"

/* Sets the rows' values from a file; names are the long names of options.
 * Texts live as long as the process. -1 with "FILE:LINE:COLUMN: ..." in error:
 * what was found and what is valid. */
int job_read(const char *path, const struct option_row *rows, int nrows,
             char *error, size_t error_bytes);

/* Where the value of an option is that the last file read gives,
 * "FILE:LINE:COLUMN"; NULL: it does not, or the option was said again. */
const char *job_place(const char *option);
void job_said_again(const char *option);

#endif
