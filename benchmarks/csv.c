/* SPDX-License-Identifier: MIT */
#include "report.h"

static void row(FILE *file, const struct bench *b, const struct job *job,
                const struct bench_result *r)
{
    const struct bench_options *const o = &b->options;
    fprintf(file,
            "allreduce,%zu,%zu,%s,%s,malloc,%s,%s,%d,%d,%ld,%.4f,%.4f,%.4f,"
            "%.4f,%.6f,%.6f,%.4f,%.4f,%llu\n",
            r->bytes, r->count, coll_dtype_name(o->dtype), coll_op_name(o->op),
            o->in_place ? "true" : "false", r->algorithm, job->nranks,
            job->nhosts, r->iterations, r->min * 1e6, r->p50 * 1e6,
            r->p99 * 1e6, r->max * 1e6, bench_algbw(r),
            bench_busbw(r, job->nranks), r->predicted * 1e6, r->limit * 1e6,
            r->wrong);
}

bool csv_write(const struct bench *b, const struct job *job,
               struct report_error *error)
{
    char *const temporary = files_temporary(b->options.csv);
    FILE *const file = temporary ? fopen(temporary, "w") : NULL;
    bool ok = file != NULL;
    if (ok) {
        fprintf(file, "collective,bytes,count,dtype,op,memory,in_place,"
                      "algorithm,nranks,nhosts,iterations,min_us,p50_us,"
                      "p99_us,max_us,algbw_GBps,busbw_GBps,predicted_us,"
                      "limit_us,wrong\n");
        for (int i = 0; i < b->nresults; i++)
            row(file, b, job, &b->results[i]);
        ok = !ferror(file);
        ok = fclose(file) == 0 && ok;
    }
    return files_publish(temporary, b->options.csv, ok, error);
}
