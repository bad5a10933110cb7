/* vicinal devices: what is here to compute on, and why the rest cannot be used. */
#include "command.h"
#include "output.h"
#include "input.h"
#include "term.h"

#include <stdlib.h>
#include <string.h>

static void device_show(const struct vic_device_info *info, bool chosen) {
    printf("%s%-8s%s %s%s\n", ink(INK_TITLE), info->name, ink(INK_PLAIN), info->model, chosen ? "  (what auto takes)" : "");
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

static int devices_run(const void *arguments, char *const *operands) {
    const struct common_args *args = arguments;
    (void)operands;
    int code = FAILED;
    int64_t count = 0;
    struct vic_device *best = NULL;
    struct vic_device_info chosen = {.size = sizeof chosen}, *infos = NULL;
    color_choose(COLOR_AUTO);
    TRY(vic_device_list(NULL, 0, &count));
    if (!(infos = memory_take((uint64_t)count, sizeof *infos))) goto done;
    for (int64_t i = 0; i < count; i++) infos[i].size = sizeof *infos;
    TRY(vic_device_list(infos, count, &count));
    TRY(vic_device_open(NULL, &best));
    TRY(vic_device_info(best, &chosen));
    for (int64_t i = 0; i < count; i++) {
        bool is_chosen = strcmp(infos[i].name, chosen.name) == 0;
        if (!args->json)
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
    .about = "Every device that this build knows: its CPU kernels, threads and memory, or why it cannot be used.",
    .example = "vicinal devices",
    .defaults = &(const struct common_args){.k = 0},
    .args_bytes = sizeof(struct common_args),
    .common = COMMON_JSON,
    .run = devices_run,
};
