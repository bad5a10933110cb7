/* The buffer before a save. */
#include "data/sink.h"

#include <string.h>

static const uint64_t buffer_bytes = UINT64_C(1) << 20;

struct sink {
    struct save save;
    uint64_t written, filled; /* bytes in the file, and after them in the buffer */
    unsigned char buffer[];
};

static uint64_t sink_bytes(void) { return sizeof(struct sink) + buffer_bytes; }

enum vic_status sink_open(const char *path, uint64_t bytes, struct sink **sink) {
    void *memory = NULL;
    if (!path) return status_fail(VIC_ARGUMENT, "expected a path to write, found NULL");
    enum vic_status status = mem_alloc(&mem_default, sink_bytes(), "a writer", &memory);
    if (status != VIC_OK) return status;
    struct sink *made = memory;
    made->written = made->filled = 0;
    TRY(save_open(&made->save, path));
    if (bytes > 0) TRY(save_reserve(&made->save, 0, bytes));
    *sink = made;
done:
    if (status != VIC_OK) sink_free(made);
    return status;
}

static enum vic_status through_write(struct sink *sink, const void *data, uint64_t bytes) {
    enum vic_status status = save_write(&sink->save, sink->written, data, bytes);
    if (status == VIC_OK) sink->written += bytes;
    return status;
}

static enum vic_status buffer_flush(struct sink *sink) {
    enum vic_status status = through_write(sink, sink->buffer, sink->filled);
    sink->filled = 0;
    return status;
}

enum vic_status sink_write(struct sink *sink, const void *data, uint64_t bytes) {
    enum vic_status status = VIC_OK;
    if (bytes > buffer_bytes - sink->filled) TRY(buffer_flush(sink));
    if (bytes >= buffer_bytes) return through_write(sink, data, bytes);
    if (bytes) memcpy(sink->buffer + sink->filled, data, (size_t)bytes); /* of nothing, data may be NULL */
    sink->filled += bytes;
done:
    return status;
}

enum vic_status sink_commit(struct sink *sink) {
    enum vic_status status = buffer_flush(sink);
    return status == VIC_OK ? save_commit(&sink->save, sink->written) : status;
}

enum vic_status sink_commit_all(struct sink *const *sinks, int count) {
    struct save *saves[SINKS_MOST];
    uint64_t bytes[SINKS_MOST];
    int used = 0;
    enum vic_status status = VIC_OK;
    for (int i = 0; i < count; i++) {
        if (!sinks[i]) continue;
        TRY(buffer_flush(sinks[i]));
        saves[used] = &sinks[i]->save, bytes[used++] = sinks[i]->written;
    }
    TRY(save_commit_all(saves, bytes, used));
done:
    return status;
}

void sink_free(struct sink *sink) {
    if (!sink) return;
    save_close(&sink->save);
    mem_free(&mem_default, sink, sink_bytes());
}
