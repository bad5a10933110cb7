/* The CPU as a backend: the table of operations, and what the processor is. */
#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The processor's own name, as the system tells it. */
static void model_read(char *model, size_t bytes) {
    (void)snprintf(model, bytes, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon || colon[1] == '\0') continue;
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(model, bytes, "%s", colon + 2);
        break;
    }
    (void)fclose(file);
}

static enum vic_status cpu_describe(int ordinal, struct vic_device_info *info) {
    if (ordinal != 0) return status_fail(VIC_NOT_FOUND, "there is one CPU device, \"cpu\"; found number %d", ordinal);
    struct kernels kernels;
    (void)snprintf(info->name, sizeof info->name, "cpu");
    model_read(info->model, sizeof info->model);
    info->threads = thread_cores();
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0) info->host_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    info->usable = kernels_pick(&kernels, info->kernels) == VIC_OK;
    if (!info->usable)
        (void)snprintf(info->sentence, sizeof info->sentence, "%.*s", (int)sizeof info->sentence - 1, vic_last_error());
    return VIC_OK;
}

static enum vic_status cpu_open(int ordinal, int threads, struct mem *host, struct mem *device, struct backend **backend) {
    (void)ordinal, (void)device;
    void *memory = NULL;
    enum vic_status status = mem_alloc(host, sizeof(struct backend), "the CPU device", &memory);
    if (status != VIC_OK) return status;
    struct backend *made = memory;
    *made = (struct backend){.mem = host};
    TRY(kernels_pick(&made->kernels, made->kernels_name));
    TRY(thread_pool_open(host, threads, &made->pool));
    *backend = made;
    return VIC_OK;
done:
    mem_free(host, made, sizeof *made);
    return status;
}

static void cpu_close(struct backend *backend) {
    if (!backend) return;
    thread_pool_close(backend->pool);
    mem_free(backend->mem, backend, sizeof *backend);
}

static struct thread_pool *cpu_pool(struct backend *backend) { return backend->pool; }

static code_sums *cpu_sums(const struct backend *backend, enum plane_kind kind) {
    code_sums *const *sums = backend->kernels.sums;
    return sums[kind];
}

static byte_sums *cpu_byte_sums(const struct backend *backend, enum vic_dtype dtype, bool squares) {
    return backend->kernels.gather_exact[dtype][squares ? OP_L2 : OP_DOT];
}

static const struct column_kernels *cpu_columns(const struct backend *backend) { return backend->kernels.columns; }

const struct backend_ops cpu_backend = {
    .name = "cpu",
    .describe = cpu_describe,
    .open = cpu_open,
    .close = cpu_close,
    .pool = cpu_pool,
    .ingest = cpu_ingest,
    .code = cpu_code,
    .plan = cpu_plan,
    .attach = cpu_attach,
    .detach = cpu_detach,
    .search = cpu_search,
    .within = cpu_within,
    .score = cpu_score,
    .check = queries_check,
    .sums = cpu_sums,
    .byte_sums = cpu_byte_sums,
    .aim = cpu_aim,
    .columns = cpu_columns,
};
