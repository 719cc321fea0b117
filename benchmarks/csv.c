/* SPDX-License-Identifier: MIT */
#include "programs/whole_file.h"
#include "report.h"

static void row(FILE *file, const struct bench *b, const struct job *job,
                const struct bench_result *r)
{
    fprintf(file,
            "%s,%zu,%zu,%s,%s,%s,%s,%s,%d,%d,%ld,%.4f,%.4f,%.4f,%.4f,%.6f,"
            "%.6f,%.4f,%.4f,%.2f,%llu,%.6f,%.0f\n",
            collective_name(r->collective), r->bytes, r->count,
            bench_dtype(b, r->collective), bench_op(b, r->collective),
            b->options.memory, b->options.in_place ? "true" : "false",
            r->algorithm, job->nranks, job->nhosts, r->iterations, r->min * 1e6,
            r->p50 * 1e6, r->p99 * 1e6, r->max * 1e6, bench_algbw(r),
            bench_busbw(r, job->nranks), r->predicted * 1e6, r->limit * 1e6,
            bench_percent(r), r->wrong, r->cpu_seconds, r->moved);
}

bool csv_write(const struct bench *b, const struct job *job,
               struct report_error *error)
{
    struct whole_file file;
    if (!whole_file_begin(&file, b->options.csv, error->text,
                          sizeof error->text))
        return false;
    fprintf(file.stream,
            "collective,bytes,count,dtype,op,memory,in_place,algorithm,nranks,"
            "nhosts,iterations,min_us,p50_us,p99_us,max_us,algbw_GBps,"
            "busbw_GBps,predicted_us,limit_us,percent_of_limit,wrong,cpu_s,"
            "bytes_moved\n");
    for (int i = 0; i < b->nresults; i++)
        row(file.stream, b, job, &b->results[i]);
    return whole_file_end(&file, true, error->text, sizeof error->text);
}
