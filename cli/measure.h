/* What measuring needs: work on several threads, a plain read of memory as the roof, percentiles. */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H

#include <vicinal.h>

#include <stdbool.h>
#include <stdint.h>

/* Runs work(context, first, count) over [0, total) cut into one piece a thread. False: threads could not be had, said. */
bool threads_run(int threads, int64_t total, void (*work)(void *context, int64_t first, int64_t count), void *context);
/* Gigabytes a second at which so many threads read `bytes` of memory, adding it up; 0 has been said. */
double plain_read_gbps(int threads, uint64_t bytes);
/* "scan", "certified" ...; "?" for other numbers. */
const char *path_name(enum vic_path path);
/* "rows", "8" ...: as options spell it. */
const char *codes_name(enum vic_codes codes);
void sort_doubles(double *values, int64_t count);
/* The value that `share` of the sorted ones do not exceed; 0 for none. */
double percentile(const double *sorted, int64_t count, double share);

#endif
