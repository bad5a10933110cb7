/* The list of backends, and opening a device by name.
 *
 * A name is a backend's, with a number where it has several devices: "cpu", "cuda", "cuda:1"; "auto" takes the first
 * usable device of the first backend that has one, and the CPU comes last, so it always finds something. */
#include "backend/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct backend_ops *const backend_list[] = {&cuda_backend, &cpu_backend, NULL};

/* Measured on two cores of Zen 5 that other work shared; the cost of a row on rows of 1,536 bytes. */
const struct costs costs_builtin = {
    .scan_bytes_s = 2.1e10, .plane_bytes_s = {2.1e10, 2.1e10}, .rescore_cost = 2.5, .handover_us = 100};

/* "cuda:1" fits "cuda" with ordinal 1. */
static bool name_fits(const char *name, const char *backend, int *ordinal) {
    size_t length = strlen(backend);
    *ordinal = 0;
    if (strncmp(name, backend, length) != 0) return false;
    if (name[length] == '\0') return true;
    char *end = NULL;
    long number = name[length] == ':' ? strtol(name + length + 1, &end, 10) : -1;
    if (number < 0 || number > 1023 || !end || end == name + length + 1 || *end != '\0') return false;
    *ordinal = (int)number;
    return true;
}

static enum vic_status device_choose(const char *name, const struct backend_ops **ops, int *ordinal,
                                     struct vic_device_info *info) {
    bool automatic = !name || strcmp(name, "auto") == 0;
    for (const struct backend_ops *const *at = backend_list; *at; at++) {
        *info = (struct vic_device_info){.size = sizeof *info};
        *ordinal = 0;
        if (!automatic && !name_fits(name, (*at)->name, ordinal)) continue;
        enum vic_status status = (*at)->describe(*ordinal, info);
        if (automatic && (status != VIC_OK || !info->usable)) continue;
        if (status != VIC_OK) return status;
        if (!info->usable) return status_fail(VIC_UNAVAILABLE, "%s", info->sentence);
        *ops = *at;
        return VIC_OK;
    }
    if (automatic) return status_fail(VIC_UNAVAILABLE, "%s", info->sentence);
    return status_fail(VIC_ARGUMENT, "expected a device (auto, cuda, cpu), found \"%.40s\"", name);
}

/* The host budget when none was given: what the machine has. */
static uint64_t machine_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
}

enum vic_status device_open(const struct vic_device_options *options, struct vic_device **device) {
    const struct backend_ops *ops = NULL;
    struct vic_device_info info;
    int ordinal = 0;
    void *memory = NULL;
    struct mem host = {.hooks = options->allocator,
                       .budget = options->host_bytes ? options->host_bytes : machine_bytes(),
                       .budget_name = "host_bytes"};
    enum vic_status status = device_choose(options->name, &ops, &ordinal, &info);
    if (status != VIC_OK) return status;
    status = mem_alloc(&host, sizeof(struct vic_device), "the device", &memory);
    if (status != VIC_OK) return status;
    struct vic_device *made = memory;
    *made = (struct vic_device){.host = host, .host_ops = &cpu_backend, .ops = ops, .info = info, .costs = costs_builtin};
    made->device = (struct mem){.budget = options->device_bytes ? options->device_bytes : info.device_bytes,
                                .budget_name = "device_bytes"};
    TRY(cpu_backend.open(0, options->threads, &made->host, &made->device, &made->host_backend));
    made->backend = made->host_backend;
    if (ops != &cpu_backend) TRY(ops->open(ordinal, options->threads, &made->host, &made->device, &made->backend));
    made->info.threads = thread_pool_size(cpu_backend.pool(made->host_backend));
    *device = made;
    return VIC_OK;
done:
    made->backend = NULL;
    device_free(made);
    return status;
}

void device_free(struct vic_device *device) {
    if (!device) return;
    if (device->backend && device->backend != device->host_backend) device->ops->close(device->backend);
    device->host_ops->close(device->host_backend);
    struct mem host = device->host;
    mem_free(&host, device, sizeof *device);
}

enum vic_status device_info(const struct vic_device *device, struct vic_device_info *info) {
    *info = device->info;
    info->host_bytes = device->host.budget;
    info->host_used = atomic_load(&device->host.used);
    info->host_peak = atomic_load(&device->host.peak);
    info->device_bytes = device->device.budget;
    info->device_used = atomic_load(&device->device.used);
    info->device_peak = atomic_load(&device->device.peak);
    return VIC_OK;
}
