/* vicinal devices: what is here to compute on, and why the rest cannot be used; or what its CPU's searches cost. */
#include "command.h"
#include "output.h"
#include "input.h"
#include "term.h"

#include <stdlib.h>
#include <string.h>

static void device_show(const struct vic_device_info *info, bool chosen) {
    printf("%s%-*s%s%s%s\n", ink(INK_TITLE), *info->model ? 9 : 0, info->name, ink(INK_PLAIN), info->model,
           chosen ? "  (what auto takes)" : "");
    if (!info->usable) {
        printf("         %scannot be used:%s %s\n", ink(INK_BAD), ink(INK_PLAIN), info->sentence);
        return;
    }
    if (info->threads) printf("         %d threads", info->threads);
    if (*info->kernels) printf(", kernels %s", info->kernels);
    if (info->host_bytes) printf(", %s of memory", show_bytes(info->host_bytes));
    if (info->device_bytes) printf(", %s on the device", show_bytes(info->device_bytes));
    printf("\n");
}

static bool device_json(const struct vic_device_info *info, bool chosen) {
    return json_put(stdout, json_pack("{s:s, s:s, s:s, s:i, s:b, s:b, s:s, s:I, s:I}", "name", info->name, "model", info->model,
                                      "kernels", info->kernels, "threads", info->threads, "usable", info->usable, "chosen",
                                      chosen, "why", info->sentence, "host_bytes", (json_int_t)info->host_bytes, "device_bytes",
                                      (json_int_t)info->device_bytes));
}

struct devices_args {
    struct common_args common;
    int calibrate;
};

static const struct option_row options[] = {
    {"calibrate", 0, OPTION_FLAG, NULL, 0, 0, offsetof(struct devices_args, calibrate), OPTIONAL,
     "measure for about 2 s what searches cost on this CPU, and keep it in ~/.cache/vicinal"},
    {.name = NULL},
};

static bool calibration_show(const struct vic_calibration *found, bool json) {
    if (json)
        return json_put(stdout,
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "scan_bytes_s", found->scan_bytes_s, "plane_8_bytes_s",
                                  found->plane_8_bytes_s, "plane_4_bytes_s", found->plane_4_bytes_s, "rescore_cost",
                                  found->rescore_cost, "handover_us", found->handover_us, "seconds", found->seconds));
    printf("scan     %.1f GB/s of rows\n", found->scan_bytes_s / 1e9);
    printf("planes   %.1f GB/s of 8-bit, %.1f GB/s of 4-bit codes, %.1f us to hand over\n", found->plane_8_bytes_s / 1e9,
           found->plane_4_bytes_s / 1e9, found->handover_us);
    printf("rescore  %.1f times a row that streams by\n", found->rescore_cost);
    return true;
}

/* In place of the list: what the CPU's searches cost, measured. */
static int calibrate_run(const struct devices_args *args) {
    int code = FAILED;
    struct vic_device *device = NULL;
    struct vic_device_options cpu = {.size = sizeof cpu, .name = "cpu"};
    struct vic_calibration found = {.size = sizeof found};
    TRY(vic_device_open(&cpu, &device));
    TRY(vic_device_calibrate(device, NULL, &found));
    if (calibration_show(&found, args->common.json)) code = DONE;
done:
    vic_device_free(device);
    return code;
}

static int devices_run(const void *arguments, char *const *operands) {
    const struct devices_args *args = arguments;
    (void)operands;
    int code = FAILED;
    int64_t count = 0;
    struct vic_device *best = NULL;
    struct vic_device_info chosen = {.size = sizeof chosen}, *infos = NULL;
    if (args->calibrate) return calibrate_run(args);
    color_choose(COLOR_AUTO);
    TRY(vic_device_list(NULL, 0, &count));
    if (!(infos = memory_take((uint64_t)count, sizeof *infos))) goto done;
    for (int64_t i = 0; i < count; i++) infos[i].size = sizeof *infos;
    TRY(vic_device_list(infos, count, &count));
    TRY(vic_device_open(NULL, &best));
    TRY(vic_device_info(best, &chosen));
    for (int64_t i = 0; i < count; i++) {
        bool is_chosen = strcmp(infos[i].name, chosen.name) == 0;
        if (!args->common.json)
            device_show(&infos[i], is_chosen);
        else if (!device_json(&infos[i], is_chosen))
            goto done;
    }
    code = DONE;
done:
    vic_device_free(best);
    free(infos);
    return code;
}

const struct command devices_command = {
    .name = "devices",
    .line = "what is here to compute on",
    .operands = "",
    .about = "Every device that this build knows: its CPU kernels, threads and memory, or why it cannot be used. With "
             "--calibrate instead: what this CPU's searches cost, measured and kept, so that later runs choose the faster "
             "way; answers never depend on it.",
    .example = "vicinal devices",
    .options = options,
    .defaults = &(const struct devices_args){.calibrate = 0},
    .args_bytes = sizeof(struct devices_args),
    .common = COMMON_JSON,
    .run = devices_run,
};
