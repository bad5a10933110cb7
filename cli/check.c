/* vicinal check: every checksum and every invariant of an index file. */
#include "input.h"
#include "term.h"

static int check_run(const void *arguments, char *const *operands) {
    const struct common_args *args = arguments;
    int code = FAILED;
    double began = seconds_now();
    struct vic_device *device = NULL;
    struct vic_index *index = NULL;
    struct vic_index_info info = {.size = sizeof info};
    const struct vic_progress progress = progress_hook();
    if (!device_from(args, &device) || !index_from(device, operands[0], 0, &index)) goto done;
    TRY(vic_index_check(index, &progress));
    TRY(vic_index_info(index, &info));
    printf("%s: whole; %s rows x %s, %s, %s, checked in %s\n", operands[0], show_count(info.rows), show_count(info.dim),
           vic_dtype_name(info.dtype), vic_metric_name(info.metric), show_seconds(seconds_now() - began));
    code = DONE;
done:
    vic_index_free(index);
    vic_device_free(device);
    return code;
}

const struct command check_command = {
    .name = "check",
    .line = "verify an index: checksums and invariants",
    .operands = "INDEX",
    .about = "Reads the whole file: all checksums, then ids sorted and unique, texts in order, rows finite, norms right. "
             "Exit code 1 and one sentence that names section and place when something is wrong.",
    .example = "vicinal check rows.vic",
    .defaults = &(const struct common_args){.k = 0},
    .args_bytes = sizeof(struct common_args),
    .common = COMMON_RUNS,
    .run = check_run,
};
