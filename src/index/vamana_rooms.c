/* Memory for the aims of searches at wide rows and long product codes: one room for each thread that may walk at once, four at
 * least. Rooms of 65,536 dimensions are 512 KiB, of 1,024 chunks a megabyte more. */
#include "index/vamana.h"

#include "base/claims.h"

struct graph_rooms {
    struct claims claims;
    uint64_t total_bytes; /* of all this */
    int64_t room_bytes;
    char *memory;
};

static int rooms_count(const struct vic_device *device) {
    int threads = thread_pool_size(device->host_ops->pool(device->host_backend));
    return threads < 4 ? 4 : threads > CLAIMS_MAX ? CLAIMS_MAX : threads;
}

static uint64_t head_bytes(void) { return round_up(sizeof(struct graph_rooms), 64); }

static uint64_t rooms_bytes(const struct vic_device *device, int64_t room_bytes) {
    return room_bytes > ROOM_STACK ? head_bytes() + (uint64_t)rooms_count(device) * round_up((uint64_t)room_bytes, 64) : 0;
}

/* The rows' room is the largest but for that of product codes, which holds as many numbers and a table. */
uint64_t graph_rooms_bytes(const struct vic_device *device, int64_t dim, int64_t pq_chunks) {
    return rooms_bytes(device, (2 * dim + pq_chunks * PQ_CENTRES) * (int64_t)sizeof(float));
}

uint64_t graph_rooms_host_bytes(const struct graph *graph) { return graph->rooms ? graph->rooms->total_bytes : 0; }

enum vic_status graph_rooms_make(struct vic_device *device, struct graph *graph) {
    int64_t room_bytes = 0;
    void *memory = NULL;
    for (int kind = 0; kind < POINT_KINDS; kind++) {
        const struct points *points = &graph->kinds[kind];
        int64_t needed = points->kind ? points->kind->room_bytes(points) : 0;
        if (needed > room_bytes) room_bytes = needed;
    }
    uint64_t bytes = rooms_bytes(device, room_bytes);
    if (bytes == 0) return VIC_OK;
    enum vic_status status = mem_alloc(graph->mem, bytes, "what searches of wide rows work in", &memory);
    if (status != VIC_OK) return status;
    graph->rooms = memory;
    graph->rooms->total_bytes = bytes;
    graph->rooms->room_bytes = (int64_t)round_up((uint64_t)room_bytes, 64);
    graph->rooms->memory = (char *)memory + head_bytes();
    claims_start(&graph->rooms->claims, rooms_count(device));
    return VIC_OK;
}

void graph_rooms_free(struct graph *graph) {
    if (!graph->rooms) return;
    claims_stop(&graph->rooms->claims);
    mem_free(graph->mem, graph->rooms, graph->rooms->total_bytes);
    graph->rooms = NULL;
}

int room_claim(struct graph_rooms *rooms, void **room) {
    int number = claims_take(&rooms->claims);
    *room = rooms->memory + number * rooms->room_bytes;
    return number;
}

void room_give(struct graph_rooms *rooms, int number) { claims_give(&rooms->claims, number); }
