/* SPDX-License-Identifier: MIT */
#include "folder.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "data/dataset.h"
#include "random.h"

void folder_make(struct folder *f, const char *dataset)
{
    strcpy(f->path, "/dev/shm/data_test.XXXXXX"); /* spares the disk */
    if (!mkdtemp(f->path)) {
        strcpy(f->path, "/tmp/data_test.XXXXXX");
        cr_assert(mkdtemp(f->path));
    }
    snprintf(f->name, sizeof(f->name), "%s:%s", dataset, f->path);
}

void folder_clean(const struct folder *f, ...)
{
    va_list names;
    va_start(names, f);
    for (const char *name; (name = va_arg(names, const char *));)
        remove(file_in(f, name));
    va_end(names);
    cr_assert_eq(rmdir(f->path), 0, "something else was left in %s", f->path);
}

const char *file_in(const struct folder *f, const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", f->path, name);
    return path;
}

void put(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, count, file) == count);
    fclose(file);
}

void put_gzip(const char *path, const void *bytes, size_t count)
{
    gzFile file = gzopen(path, "wb");
    cr_assert(file && gzwrite(file, bytes, (unsigned)count) == (int)count);
    gzclose(file);
}

size_t get(const char *path, unsigned char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file);
    const size_t count = fread(bytes, 1, room, file);
    fclose(file);
    return count;
}

size_t mutate(unsigned char *bytes, size_t count, uint64_t seed)
{
    const uint64_t n = 1 + random_below(seed, 0, 4);
    const uint32_t reach =
        random_below(seed, 9, 2) && count > 64 ? 64 : (uint32_t)count;
    for (uint64_t i = 1; i <= n; i++)
        bytes[random_below(seed, i, reach)] =
            (unsigned char)random_u64(seed, i + 16);
    if (random_below(seed, 30, 4) == 0)
        return random_below(seed, 31, (uint32_t)count);
    return count;
}

int open_error(const char *name, char *error)
{
    struct dataset d;
    const struct shape wanted = {1, 3, 8, 8}; /* of sets that are told */
    error[0] = '\0';
    const int failed =
        dataset_open(&d, name, DATASET_TRAIN, wanted, error, 512);
    if (!failed)
        dataset_close(&d);
    return failed;
}

void expect_error(const char *name, ...)
{
    char error[512];
    va_list words;
    cr_assert_eq(open_error(name, error), -1, "%s was accepted", name);
    cr_assert(!strchr(error, '\n') && strlen(error) < 511);
    va_start(words, name);
    for (const char *w; (w = va_arg(words, const char *));)
        cr_assert(strstr(error, w), "\"%s\" lacks \"%s\"", error, w);
    va_end(words);
}
