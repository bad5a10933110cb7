/* The disk form: nodes in sectors, and beside them what DiskANN finds its way by, codes of product quantisation.
 *
 * For inner products it searches by l2 in one dimension more: rows are divided by the largest norm, and the new coordinate
 * makes each of unit length. An index's own codes are written, where they are of those rows; else codes are trained on what
 * is written, a byte a dimension up to 96 of them and a quarter of the dimensions beyond 384.
 *
 * The surprising rule: it wants 256 centres a chunk. Where the rows have fewer distinct parts, the first centre is repeated. */
#include "index/diskann.h"

#include "base/progress.h"
#include "quant/pq.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CHUNKS_PLAIN = 96, CHUNKS_MOST = 512 };                     /* the latter is DiskANN's limit */
enum { NORM, ROTATION, PIVOTS, CODES, DESCRIPTION, NODES, PARTS }; /* what leads to the others last */

struct disk_job {
    const struct vic_index *index;
    struct diskann_lists lists;
    const struct rows *rows;
    int64_t dim;    /* of rows as they are written */
    float max_norm; /* what they are divided by; 0: not for inner products */
    struct diskann_disk layout;
    const struct pq_parts *pq; /* the index's, or of `trained` */
    const void *codes;
    struct pq trained;
    void *own_codes;
    struct diskann_part parts[PARTS];
};

static uint64_t codes_bytes(const struct disk_job *job) { return (uint64_t)job->rows->n * (uint64_t)job->pq->chunks; }

/* ---- rows */

/* For inner products, of the rows as they are; rows of zeroes are divided by 1. */
static enum vic_status max_norm_find(struct disk_job *job) {
    const struct rows *rows = job->rows;
    double largest = 0;
    float values[DIM_MAX];
    for (int64_t i = 0; i < rows->n; i++) {
        double sum = 0;
        pq_row_load(rows, 0, i, values);
        for (int64_t j = 0; j < rows->dim; j++) sum += (double)values[j] * (double)values[j];
        if (sum > largest) largest = sum;
    }
    job->max_norm = largest > 0 ? (float)sqrt(largest) : 1;
    if (float_finite(job->max_norm) && job->max_norm > 0) return VIC_OK;
    return status_fail(VIC_UNSUPPORTED, "expected norms that float32 can hold for inner products on a disk, found %g",
                       sqrt(largest));
}

static enum vic_status rows_choose(struct disk_job *job) {
    const struct graph_product *product = job->index->graph.product;
    job->rows = &job->index->corpus.rows;
    job->dim = job->rows->dim;
    if (job->rows->metric == VIC_L2) return VIC_OK;
    if (dtype_is_integer(job->rows->dtype))
        return status_fail(VIC_UNSUPPORTED, "expected l2 for integers in DiskANN's disk form, found %s of %s",
                           vic_metric_name(job->rows->metric), vic_dtype_name(job->rows->dtype));
    if (job->rows->metric != VIC_DOT) return VIC_OK;
    if (job->dim == DIM_MAX)
        return status_fail(VIC_UNSUPPORTED, "expected a dim below %lld for inner products on a disk, which add one, found it",
                           (long long)DIM_MAX);
    job->dim++;
    if (product) job->max_norm = product->pq.parts.max_norm; /* as its codes have it, if they are such */
    return job->max_norm > 0 ? VIC_OK : max_norm_find(job);
}

static void row_write(const struct disk_job *job, int64_t row, float *out) {
    if (job->max_norm > 0)
        pq_row_load(job->rows, job->max_norm, row, out);
    else
        diskann_row(job->rows, row, out);
}

/* ---- codes */

static int64_t chunks_for(int64_t dim) {
    int64_t chunks = dim <= CHUNKS_PLAIN ? dim : dim / 4 < CHUNKS_PLAIN ? CHUNKS_PLAIN : dim / 4;
    return chunks < CHUNKS_MOST ? chunks : CHUNKS_MOST;
}

/* Those of the index, if they are of what is written and not of more chunks than DiskANN takes. */
static bool codes_keep(struct disk_job *job) {
    const struct graph_product *product = job->index->graph.product;
    if (!product || product->pq.parts.dim != job->dim || product->pq.parts.chunks > CHUNKS_MOST) return false;
    job->pq = &product->pq.parts, job->codes = product->codes;
    return true;
}

static enum vic_status codes_make(struct disk_job *job, const struct vic_progress *progress) {
    struct vic_device *device = job->index->device;
    const struct pq_training training = {.chunks = chunks_for(job->dim), .max_norm = job->max_norm};
    enum vic_status status = VIC_OK;
    TRY(pq_train(device, job->rows, &training, progress, &job->trained));
    job->pq = &job->trained.parts;
    TRY(mem_alloc(&device->host, codes_bytes(job), "codes of rows", &job->own_codes));
    TRY(pq_encode(device, &job->trained, job->rows, progress, job->own_codes, NULL));
    job->codes = job->own_codes;
done:
    return status;
}

static enum vic_status bin_write(struct sink *sink, uint32_t rows, uint32_t columns, const void *values, uint64_t bytes) {
    const uint32_t head[] = {rows, columns};
    enum vic_status status = sink_write(sink, head, sizeof head);
    return status == VIC_OK ? sink_write(sink, values, bytes) : status;
}

static enum vic_status zeroes_write(struct sink *sink, uint64_t bytes) {
    static const unsigned char zeroes[DISKANN_SECTOR_BYTES];
    enum vic_status status = VIC_OK;
    for (uint64_t piece; bytes > 0 && status == VIC_OK; bytes -= piece) {
        piece = bytes < sizeof zeroes ? bytes : sizeof zeroes;
        status = sink_write(sink, zeroes, piece);
    }
    return status;
}

static enum vic_status pivots_write(const struct pq_parts *parts, struct sink *sink) {
    uint64_t dim = (uint64_t)parts->dim, row_bytes = dim * sizeof(float), offsets[4] = {DISKANN_SECTOR_BYTES};
    const uint32_t head[] = {DISKANN_CENTRES, (uint32_t)dim};
    enum vic_status status = VIC_OK;
    offsets[1] = offsets[0] + 8 + DISKANN_CENTRES * row_bytes;
    offsets[2] = offsets[1] + 8 + row_bytes;
    offsets[3] = offsets[2] + 8 + ((uint64_t)parts->chunks + 1) * sizeof(uint32_t);
    TRY(bin_write(sink, 4, 1, offsets, sizeof offsets));
    TRY(zeroes_write(sink, DISKANN_SECTOR_BYTES - 8 - sizeof offsets));
    TRY(sink_write(sink, head, sizeof head));
    for (int64_t c = 0; c < DISKANN_CENTRES; c++)
        TRY(sink_write(sink, parts->pivots + (c < parts->centres ? c : 0) * parts->dim, row_bytes));
    TRY(bin_write(sink, (uint32_t)dim, 1, parts->centroid, row_bytes));
    TRY(bin_write(sink, (uint32_t)parts->chunks + 1, 1, parts->offsets, ((uint64_t)parts->chunks + 1) * sizeof(uint32_t)));
done:
    return status;
}

/* ---- nodes */

static uint64_t row_bytes_of(const struct disk_job *job) {
    return (uint64_t)job->dim * vic_dtype_bytes(diskann_type(job->rows));
}

static void layout_set(struct disk_job *job) {
    const struct graph *graph = job->lists.graph;
    int64_t room = job->lists.most > graph->degree ? job->lists.most : graph->degree;
    uint64_t bytes = ((uint64_t)room + 1) * sizeof(uint32_t) + row_bytes_of(job);
    job->layout = (struct diskann_disk){.generation = DISKANN_CPP,
                                        .nodes = job->rows->n,
                                        .dim = job->dim,
                                        .medoid = job->lists.start,
                                        .sector_bytes = DISKANN_SECTOR_BYTES,
                                        .node_bytes = bytes,
                                        .per_sector = DISKANN_SECTOR_BYTES / bytes};
}

static uint64_t nodes_file_bytes(const struct disk_job *job) {
    return round_up(diskann_node_offset(&job->layout, job->rows->n - 1) + job->layout.node_bytes, DISKANN_SECTOR_BYTES);
}

static enum vic_status node_write(const struct disk_job *job, int64_t node, float *row, struct sink *sink) {
    int64_t count = 0;
    const uint32_t *list = diskann_list(&job->lists, node, &count);
    const uint32_t word = (uint32_t)count;
    enum vic_status status = VIC_OK;
    row_write(job, node, row);
    TRY(sink_write(sink, row, row_bytes_of(job)));
    TRY(sink_write(sink, &word, sizeof word));
    TRY(sink_write(sink, list, (uint64_t)count * sizeof *list));
done:
    return status;
}

static enum vic_status nodes_write(const struct disk_job *job, const struct vic_progress *hook, struct sink *sink) {
    enum { WORDS = 9 };
    const struct diskann_disk *disk = &job->layout;
    uint64_t size = nodes_file_bytes(job), at = 8 + WORDS * sizeof(uint64_t);
    const uint64_t words[WORDS] = {
        (uint64_t)disk->nodes, (uint64_t)disk->dim, (uint64_t)disk->medoid, disk->node_bytes, disk->per_sector, 0, 0, 0, size};
    float row[DIM_MAX];
    struct progress progress = progress_start(hook, "writing", disk->nodes);
    enum vic_status status = VIC_OK;
    TRY(bin_write(sink, WORDS, 1, words, sizeof words));
    for (int64_t node = 0; node < disk->nodes; node++) {
        int64_t count = 0;
        uint64_t begin = diskann_node_offset(disk, node);
        TRY(zeroes_write(sink, begin - at));
        TRY(node_write(job, node, row, sink));
        (void)diskann_list(&job->lists, node, &count);
        at = begin + row_bytes_of(job) + ((uint64_t)count + 1) * sizeof(uint32_t);
        if (node % 1024 == 0 || node + 1 == disk->nodes) TRY(progress_step(&progress, node + 1));
    }
    TRY(zeroes_write(sink, size - at));
done:
    return status;
}

/* ---- the set */

/* PATH is PREFIX_disk.index; *prefix is a copy of the first part. */
static enum vic_status prefix_take(const char *path, char prefix[PATH_MAX]) {
    static const char end[] = DISKANN_DISK_END;
    size_t length = strlen(path), end_length = sizeof end - 1;
    if (length <= end_length || length >= PATH_MAX || strcmp(path + length - end_length, end) != 0)
        return status_fail(VIC_ARGUMENT, "expected a path that ends in %s, found %.300s", end, path);
    memcpy(prefix, path, length - end_length);
    prefix[length - end_length] = '\0';
    return VIC_OK;
}

static enum vic_status parts_write(struct disk_job *job, const char *path, const char *prefix,
                                   const struct vic_progress *progress) {
    struct diskann_part *parts = job->parts;
    enum vic_status status = VIC_OK;
    if (job->max_norm > 0) TRY(diskann_part_open(&parts[NORM], path, "_max_base_norm.bin", 0));
    uint64_t rotation_bytes = (uint64_t)job->pq->dim * (uint64_t)job->pq->dim * sizeof(float);
    uint32_t dim = (uint32_t)job->pq->dim;
    if (job->pq->rotation) TRY(diskann_part_open(&parts[ROTATION], prefix, DISKANN_ROTATION_END, 8 + rotation_bytes));
    TRY(diskann_part_open(&parts[PIVOTS], prefix, DISKANN_PIVOTS_END, 0));
    TRY(diskann_part_open(&parts[CODES], prefix, "_pq_compressed.bin", 8 + codes_bytes(job)));
    TRY(diskann_part_open(&parts[DESCRIPTION], prefix, "_metadata.bin", 0));
    TRY(diskann_part_open(&parts[NODES], path, "", nodes_file_bytes(job)));
    if (job->max_norm > 0) TRY(bin_write(parts[NORM].sink, 1, 1, &job->max_norm, sizeof job->max_norm));
    if (job->pq->rotation) TRY(bin_write(parts[ROTATION].sink, dim, dim, job->pq->rotation, rotation_bytes));
    TRY(pivots_write(job->pq, parts[PIVOTS].sink));
    TRY(bin_write(parts[CODES].sink, (uint32_t)job->rows->n, (uint32_t)job->pq->chunks, job->codes, codes_bytes(job)));
    TRY(diskann_description_write(&job->index->corpus.rows, &parts[DESCRIPTION]));
    TRY(nodes_write(job, progress, parts[NODES].sink));
    TRY(diskann_parts_commit(parts, PARTS));
done:
    return status;
}

static void job_close(struct disk_job *job) {
    struct mem *mem = &job->index->device->host;
    diskann_parts_close(job->parts, PARTS);
    if (job->own_codes) mem_free(mem, job->own_codes, codes_bytes(job));
    pq_free(&job->trained);
}

enum vic_status diskann_disk_save(const struct vic_index *index, const char *path, const struct vic_progress *progress) {
    static const char *const leftovers[] = {"_medoids.bin", "_centroids.bin",     "_pq_pivots.bin",
                                            "_labels.txt",  "_max_base_norm.bin", NULL};
    static const char *const leftovers_dot[] = {"_medoids.bin", "_centroids.bin", "_pq_pivots.bin", "_labels.txt", NULL};
    static const char *const rotations[] = {DISKANN_ROTATION_END, NULL};
    struct disk_job job = {.index = index};
    char prefix[PATH_MAX];
    enum vic_status status = VIC_OK;
    TRY(prefix_take(path, prefix));
    TRY(diskann_leftover_refuse(path, index->corpus.rows.metric == VIC_DOT ? leftovers_dot : leftovers));
    TRY(diskann_lists_open(index, &job.lists));
    TRY(rows_choose(&job));
    layout_set(&job);
    bool kept = codes_keep(&job);
    if (!kept || !job.pq->rotation) TRY(diskann_leftover_refuse(prefix, rotations));
    if (!kept) TRY(codes_make(&job, progress));
    TRY(parts_write(&job, path, prefix, progress));
done:
    job_close(&job);
    return status;
}
