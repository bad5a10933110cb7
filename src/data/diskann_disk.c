/* DiskANN's index on a disk: a sector of header, then nodes, each its vector, uint32 count, that many uint32 neighbours and
 * zeroes up to the node's length; as many nodes as fit into a sector, or a node in several.
 *
 * The surprising rule: where a vector ends is not said, since the element type is not (in 2021 not even the dimension). It is
 * found by looking: at the right place every node has a count that its length allows, neighbours that exist, and zeroes
 * behind them. Elements of one byte remain, of which nobody can tell i8 from u8. */
#include "data/diskann.h"

#include "base/fpenv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const uint64_t node_bytes_most = UINT64_C(1) << 31; /* times 2^32 nodes: still 64 bits */
enum { SAMPLE_NODES = 64 };

const char *diskann_generation_name(enum diskann_generation generation) {
    static const char *const names[] = {
        [DISKANN_2021] = "2021 header", [DISKANN_CPP] = "C++ header", [DISKANN_RUST] = "Rust header"};
    return names[generation];
}

/* ---- the header */

static uint64_t header_word(const struct source *source, int at) {
    uint64_t offset = (uint64_t)at * 8;
    return source_word(source, offset) | (uint64_t)source_word(source, offset + 4) << 32;
}

/* Words as a bin has them begin at 1, behind its own two numbers; those of 2021 at 0. */
static enum vic_status words_take(const struct source *source, struct diskann_disk *disk, uint64_t *stated_bytes) {
    uint32_t count = source_word(source, 0), one = source_word(source, 4);
    enum { CPP_WORDS = 9, CPP_WORDS_REORDER = 12, RUST_BYTES = 96 };
    *disk = (struct diskann_disk){.sector_bytes = DISKANN_SECTOR_BYTES};
    uint64_t nodes, dim = 0, medoid, frozen, frozen_at;
    if (one == 1 && (count == CPP_WORDS || count == CPP_WORDS_REORDER || count == RUST_BYTES)) {
        disk->generation = count == RUST_BYTES ? DISKANN_RUST : DISKANN_CPP;
        nodes = header_word(source, 1), dim = header_word(source, 2), medoid = header_word(source, 3);
        disk->node_bytes = header_word(source, 4), disk->per_sector = header_word(source, 5);
        frozen = header_word(source, 6), frozen_at = header_word(source, 7);
        if (dim < 1 || dim > (uint64_t)DIM_MAX)
            return status_fail(VIC_FORMAT, "%s: expected vectors of dim 1 to %lld, found dim %" PRIu64, source->name,
                               (long long)DIM_MAX, dim);
        if (count == CPP_WORDS_REORDER) {
            uint64_t reorder_dim = header_word(source, 10);
            disk->reorder_sector = header_word(source, 9), disk->reorder_per_sector = header_word(source, 11);
            if (reorder_dim < 1 || reorder_dim > (uint64_t)DIM_MAX || disk->reorder_per_sector < 1 ||
                disk->reorder_per_sector > DISKANN_SECTOR_BYTES / (reorder_dim * sizeof(float)))
                return status_fail(VIC_FORMAT,
                                   "%s: expected full vectors that fit into a sector, found %" PRIu64 " of dim %" PRIu64
                                   " a sector",
                                   source->name, disk->reorder_per_sector, reorder_dim);
            disk->reorder_dim = (int64_t)reorder_dim;
        }
        *stated_bytes = header_word(source, count == CPP_WORDS_REORDER ? 12 : 9);
        if (disk->generation == DISKANN_RUST)
            disk->extra_bytes = header_word(source, 10), disk->sector_bytes = header_word(source, 11);
    } else if (header_word(source, 0) == source->bytes) {
        disk->generation = DISKANN_2021;
        *stated_bytes = header_word(source, 0), nodes = header_word(source, 1), medoid = header_word(source, 2);
        disk->node_bytes = header_word(source, 3), disk->per_sector = header_word(source, 4);
        frozen = header_word(source, 5), frozen_at = header_word(source, 6);
    } else {
        return status_fail(VIC_FORMAT,
                           "%s: expected the header of a DiskANN disk index (9 or 12 and 1, 96 and 1, or its %" PRIu64
                           " bytes), found %" PRIu32 " and %" PRIu32,
                           source->name, source->bytes, count, one);
    }
    if (nodes < 1 || nodes > UINT32_MAX)
        return status_fail(VIC_FORMAT, "%s: expected 1 to %" PRIu32 " nodes, found %" PRIu64, source->name, UINT32_MAX, nodes);
    if (medoid >= nodes)
        return status_fail(VIC_FORMAT, "%s: expected a medoid below %" PRIu64 ", the number of nodes, found %" PRIu64,
                           source->name, nodes, medoid);
    if (frozen > 1 || (frozen == 1 && frozen_at != nodes - 1))
        return status_fail(VIC_UNSUPPORTED,
                           "%s: expected no frozen node or one, the last, found %" PRIu64 " beginning with node %" PRIu64,
                           source->name, frozen, frozen_at);
    disk->nodes = (int64_t)nodes, disk->dim = (int64_t)dim, disk->medoid = (int64_t)medoid, disk->frozen = (int64_t)frozen;
    return VIC_OK;
}

static enum vic_status lengths_check(const struct source *source, const struct diskann_disk *disk) {
    bool power = disk->sector_bytes >= 512 && disk->sector_bytes <= node_bytes_most &&
                 (disk->sector_bytes & (disk->sector_bytes - 1)) == 0;
    if (!power)
        return status_fail(VIC_FORMAT, "%s: expected sectors of a power of two from 512 bytes, found %" PRIu64, source->name,
                           disk->sector_bytes);
    if (disk->node_bytes <= 4 || disk->node_bytes > node_bytes_most || disk->extra_bytes >= disk->node_bytes - 4)
        return status_fail(VIC_FORMAT,
                           "%s: expected nodes of 5 to %" PRIu64 " bytes, found %" PRIu64 ", %" PRIu64 " of them extra",
                           source->name, node_bytes_most, disk->node_bytes, disk->extra_bytes);
    if (disk->per_sector <= disk->sector_bytes / disk->node_bytes && (disk->per_sector > 0 || disk->generation != DISKANN_2021))
        return VIC_OK;
    return status_fail(VIC_FORMAT, "%s: expected at most %" PRIu64 " nodes of %" PRIu64 " bytes a sector, found %" PRIu64,
                       source->name, disk->sector_bytes / disk->node_bytes, disk->node_bytes, disk->per_sector);
}

static uint64_t node_sectors(const struct diskann_disk *disk) {
    return (disk->node_bytes + disk->sector_bytes - 1) / disk->sector_bytes;
}

uint64_t diskann_node_offset(const struct diskann_disk *disk, int64_t node) {
    uint64_t i = (uint64_t)node;
    if (disk->per_sector == 0) return (1 + i * node_sectors(disk)) * disk->sector_bytes;
    return (1 + i / disk->per_sector) * disk->sector_bytes + i % disk->per_sector * disk->node_bytes;
}

static uint64_t run_sectors(int64_t rows, uint64_t per_sector) { return ((uint64_t)rows + per_sector - 1) / per_sector; }

enum vic_status diskann_disk_header(const struct source *source, struct diskann_disk *disk) {
    uint64_t stated = 0, sectors = 0, bytes = 0;
    enum vic_status status = VIC_OK;
    if (source->bytes < DISKANN_SECTOR_BYTES)
        return status_fail(VIC_FORMAT,
                           "%s: expected at least %d bytes (the first sector of a DiskANN disk index), found %" PRIu64,
                           source->name, DISKANN_SECTOR_BYTES, source->bytes);
    TRY(words_take(source, disk, &stated));
    TRY(lengths_check(source, disk));
    bool fits = disk->per_sector > 0 || checked_mul((uint64_t)disk->nodes, node_sectors(disk), &sectors);
    if (disk->per_sector > 0) sectors = run_sectors(disk->nodes, disk->per_sector);
    if (disk->reorder_sector && disk->reorder_sector != sectors + 1)
        return status_fail(VIC_FORMAT, "%s: expected full vectors from sector %" PRIu64 " on, behind the nodes, found %" PRIu64,
                           source->name, sectors + 1, disk->reorder_sector);
    if (disk->reorder_sector) sectors += run_sectors(disk->nodes, disk->reorder_per_sector);
    fits = fits && checked_mul(sectors + 1, disk->sector_bytes, &bytes);
    if (fits && stated == bytes && source->bytes == bytes) return VIC_OK;
    return status_fail(VIC_FORMAT,
                       "%s: expected %" PRIu64 " bytes for %" PRId64 " nodes of %" PRIu64 " bytes, found %" PRIu64
                       " bytes and %" PRIu64 " in its header",
                       source->name, fits ? bytes : UINT64_MAX, disk->nodes, disk->node_bytes, source->bytes, stated);
done:
    return status;
}

/* ---- where neighbours begin */

struct lists_at {
    struct window *window;
    const struct diskann_disk *disk;
    uint64_t coordinate_bytes;
    bool zeroes; /* whether nothing may follow the neighbours */
};

static uint64_t list_most(const struct diskann_disk *disk, uint64_t coordinate_bytes) {
    return (disk->node_bytes - disk->extra_bytes - coordinate_bytes) / 4 - 1;
}

/* Whether a node's list, if it begins there, is one; *count is what it begins with, *bad the slot that is wrong (-1: the
 * count itself, -2: what follows). */
static enum vic_status list_look(const struct lists_at *at, int64_t node, uint32_t *count, int64_t *bad, bool *good) {
    const struct diskann_disk *disk = at->disk;
    uint64_t begin = diskann_node_offset(disk, node) + at->coordinate_bytes, most = list_most(disk, at->coordinate_bytes);
    const unsigned char *bytes = NULL;
    enum vic_status status = VIC_OK;
    *good = false, *bad = -1;
    TRY(window_get(at->window, begin, 4, &bytes));
    memcpy(count, bytes, sizeof *count);
    if (*count > most) return VIC_OK;
    for (uint64_t first = 0, slots = at->zeroes ? most : *count; first < slots;) {
        uint64_t piece = slots - first < DISKANN_WINDOW_BYTES / 4 ? slots - first : DISKANN_WINDOW_BYTES / 4;
        TRY(window_get(at->window, begin + 4 + first * 4, piece * 4, &bytes));
        for (uint64_t i = 0; i < piece; i++) {
            uint32_t word;
            memcpy(&word, bytes + i * 4, sizeof word);
            *bad = first + i < *count ? (int64_t)(first + i) : -2;
            if (first + i < *count ? word >= disk->nodes : word != 0) return VIC_OK;
        }
        first += piece;
    }
    *good = true;
done:
    return status;
}

/* Whether the lists of nodes all over the file begin behind so many bytes; some must not be empty. */
static enum vic_status lists_fit(const struct source *source, const struct diskann_disk *disk, uint64_t coordinate_bytes,
                                 bool *fit) {
    struct window window = {.source = source};
    const struct lists_at at = {&window, disk, coordinate_bytes, true};
    int64_t step = disk->nodes / SAMPLE_NODES + 1, bad = 0;
    uint32_t count = 0;
    bool some = disk->nodes == 1;
    enum vic_status status = VIC_OK;
    *fit = true;
    for (int64_t node = 0; node < disk->nodes && *fit; node += step) {
        window.end = diskann_node_offset(disk, node) + disk->node_bytes; /* reads no more than this one */
        TRY(list_look(&at, node, &count, &bad, fit));
        some |= count > 0;
    }
    *fit &= some;
done:
    return status;
}

static bool room_for(const struct diskann_disk *disk, uint64_t coordinate_bytes) {
    uint64_t room = disk->node_bytes - disk->extra_bytes;
    return coordinate_bytes <= room - 4 && (room - coordinate_bytes) % 4 == 0;
}

/* The file says the dimension, and so there are but three places. */
static enum vic_status element_find(const struct source *source, struct diskann_disk *disk) {
    static const enum element by_bytes[] = {[1] = ELEMENT_NONE, [2] = ELEMENT_F16, [4] = ELEMENT_F32};
    uint64_t found = 0;
    enum vic_status status = VIC_OK;
    for (uint64_t each = 1; each <= 4; each *= 2) {
        bool fit = room_for(disk, (uint64_t)disk->dim * each);
        if (fit) TRY(lists_fit(source, disk, (uint64_t)disk->dim * each, &fit));
        if (fit && found)
            return status_fail(VIC_TYPE,
                               "%s: expected the reader's dtype, which a disk index does not say: elements of %" PRIu64
                               " and of %" PRIu64 " bytes fit",
                               source->name, found, each);
        if (fit) found = each;
    }
    if (!found)
        return status_fail(VIC_FORMAT,
                           "%s: expected nodes of vectors of dim %" PRId64 " with neighbours below %" PRId64
                           ", found none that read so with elements of 1, 2 or 4 bytes",
                           source->name, disk->dim, disk->nodes);
    disk->element = by_bytes[found];
    disk->coordinate_bytes = (uint64_t)disk->dim * found;
done:
    return status;
}

/* Nothing says the dimension: any place may be it. */
static enum vic_status dim_find(const struct source *source, enum element asked, struct diskann_disk *disk) {
    uint64_t each = asked ? element_bytes(asked) : 1, found = 0;
    int places = 0;
    enum vic_status status = VIC_OK;
    for (uint64_t at = each; at <= disk->node_bytes - 4; at += each) {
        bool fit = room_for(disk, at);
        if (fit) TRY(lists_fit(source, disk, at, &fit));
        if (fit) found = at, places++;
    }
    if (places != 1)
        return status_fail(VIC_FORMAT,
                           "%s: expected one place in its nodes of %" PRIu64
                           " bytes at which neighbours begin (a 2021 header has no dim), found %d",
                           source->name, disk->node_bytes, places);
    if (!asked)
        return status_fail(
            VIC_TYPE, "%s: expected the reader's dtype, which a 2021 header does not say: its vectors have %" PRIu64 " bytes",
            source->name, found);
    disk->coordinate_bytes = found, disk->dim = (int64_t)(found / each);
done:
    return status;
}

enum vic_status diskann_disk_open(const struct source *source, enum element asked, struct diskann_disk *disk) {
    enum vic_status status = VIC_OK;
    TRY(diskann_disk_header(source, disk));
    if (disk->generation == DISKANN_2021) {
        TRY(dim_find(source, asked, disk));
    } else if (disk->reorder_sector) {
        asked = ELEMENT_U8; /* codes; the vectors are behind the nodes, always float32 */
        disk->coordinate_bytes = (uint64_t)disk->dim;
    } else if (!asked) {
        TRY(element_find(source, disk));
    } else {
        disk->coordinate_bytes = (uint64_t)disk->dim * element_bytes(asked);
    }
    if (asked) disk->element = disk->reorder_sector ? ELEMENT_F32 : asked;
    if (!room_for(disk, disk->coordinate_bytes))
        return status_fail(VIC_TYPE,
                           "%s: expected nodes of %" PRIu64 " bytes to have room for a vector of dim %" PRId64
                           " and neighbours of 4 bytes, found vectors of %" PRIu64 " bytes as %s",
                           source->name, disk->node_bytes, disk->dim, disk->coordinate_bytes, element_name(asked));
    disk->degree = (int64_t)list_most(disk, disk->coordinate_bytes);
done:
    return status;
}

static enum vic_status list_refuse(const struct source *source, const struct diskann_disk *disk, int64_t node, uint32_t count,
                                   int64_t bad, uint32_t found) {
    if (bad < 0)
        return status_fail(VIC_FORMAT,
                           "%s: expected at most %" PRId64 " neighbours at node %" PRId64 " (byte %" PRIu64 "), found %" PRIu32,
                           source->name, disk->degree, node, diskann_node_offset(disk, node) + disk->coordinate_bytes, count);
    return status_fail(VIC_FORMAT,
                       "%s: expected neighbours below %" PRId64 ", the number of nodes, found %" PRIu32 " at node %" PRId64
                       ", slot %" PRId64,
                       source->name, disk->nodes, found, node, bad);
}

enum vic_status diskann_disk_each(const struct source *source, const struct diskann_disk *disk,
                                  const struct diskann_taker *taker) {
    struct window window = {.source = source, .end = source->bytes};
    const struct lists_at at = {&window, disk, disk->coordinate_bytes, false};
    uint32_t neighbours[DISKANN_DEGREE_MAX], count = 0, found = 0;
    const unsigned char *bytes = NULL;
    int64_t bad = 0;
    bool good = false;
    enum vic_status status = VIC_OK;
    for (int64_t node = 0; node < disk->nodes; node++) {
        uint64_t begin = diskann_node_offset(disk, node) + disk->coordinate_bytes;
        TRY(list_look(&at, node, &count, &bad, &good));
        if (!good && bad >= 0) {
            TRY(window_get(&window, begin + 4 + (uint64_t)bad * 4, 4, &bytes));
            memcpy(&found, bytes, sizeof found);
        }
        if (!good) return list_refuse(source, disk, node, count, bad, found);
        if (count > DISKANN_DEGREE_MAX)
            return status_fail(VIC_UNSUPPORTED, "%s: expected at most %d neighbours a node, found %" PRIu32 " at node %" PRId64,
                               source->name, DISKANN_DEGREE_MAX, count, node);
        TRY(window_get(&window, begin + 4, (uint64_t)count * 4, &bytes));
        memcpy(neighbours, bytes, (size_t)count * 4);
        TRY(taker->take(taker->user, node, neighbours, count));
    }
done:
    return status;
}

/* ---- its vectors, as a row of the readers' table */

struct disk_state {
    struct diskann_disk disk;
    struct diskann_beside beside;
    float scale; /* 0: rows are as they were; else they were divided by it */
};

/* Of what is read as rows, before a coordinate is dropped. */
static int64_t vector_dim(const struct diskann_disk *disk) { return disk->reorder_sector ? disk->reorder_dim : disk->dim; }

static enum fit disk_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    struct diskann_disk disk;
    (void)format;
    if (diskann_disk_header(source, &disk) != VIC_OK) return FIT_NONE;
    layout->rows = disk.nodes - disk.frozen;
    layout->dim = vector_dim(&disk);
    return FIT_MAGIC;
}

/* Every file of the set is held against the index. */
static enum vic_status beside_check(const struct source *source, const struct diskann_disk *disk,
                                    const struct diskann_beside *beside) {
    int64_t dim = vector_dim(disk) - (beside->max_base_norm > 0), rows = disk->nodes - disk->frozen;
    if (beside->max_base_norm > 0 && (disk->element != ELEMENT_F32 || dim < 1))
        return status_fail(
            VIC_FORMAT,
            "%s: expected float32 vectors of dim 2 and more, since _max_base_norm.bin lies beside it, found %s of "
            "dim %" PRId64,
            source->name, element_name(disk->element), vector_dim(disk));
    if (beside->codes && !disk->reorder_sector)
        return status_fail(VIC_UNSUPPORTED,
                           "%s: expected vectors in its nodes, found codes of %" PRId64
                           " bytes, since _pq_pivots.bin lies beside it, and no full vectors behind them",
                           source->name, disk->dim);
    if (beside->max_base_norm == 0 && beside->metric == VIC_DOT && beside->described_dim == dim - 1)
        return status_fail(VIC_NOT_FOUND,
                           "%s: expected _max_base_norm.bin beside it, since _metadata.bin says inner product of dim %" PRId64
                           " and its vectors have dim %" PRId64 ", found none",
                           source->name, beside->described_dim, dim);
    if (beside->described_dim >= 0 && beside->described_dim != dim)
        return status_fail(VIC_FORMAT, "%s: expected dim %" PRId64 ", as _metadata.bin beside it says, found %" PRId64,
                           source->name, beside->described_dim, dim);
    if (beside->codes_rows >= 0 && beside->codes_rows != disk->nodes)
        return status_fail(VIC_FORMAT,
                           "%s: expected codes of %" PRId64 " nodes in _pq_compressed.bin beside it, found %" PRId64,
                           source->name, disk->nodes, beside->codes_rows);
    if (beside->pivots.dim >= 0 && !beside->codes && beside->pivots.dim != disk->dim)
        return status_fail(VIC_FORMAT, "%s: expected pivots of dim %" PRId64 " in _pq_pivots.bin beside it, found dim %" PRId64,
                           source->name, disk->dim, beside->pivots.dim);
    if (beside->codes_rows >= 0 && beside->pivots.chunks > 0 && beside->codes_chunks != beside->pivots.chunks)
        return status_fail(VIC_FORMAT,
                           "%s: expected codes of %" PRId64
                           " chunks in _pq_compressed.bin beside it, as _pq_pivots.bin has, found %" PRId64,
                           source->name, beside->pivots.chunks, beside->codes_chunks);
    if (beside->described_rows >= 0 && beside->described_rows != rows)
        return status_fail(VIC_FORMAT, "%s: expected %" PRId64 " rows, as _metadata.bin beside it says, found %" PRId64,
                           source->name, beside->described_rows, rows);
    return VIC_OK;
}

static enum vic_status disk_open(struct vic_reader *reader) {
    const struct source *source = &reader->source;
    struct layout *layout = &reader->layout;
    void *memory = NULL;
    enum vic_status status = VIC_OK;
    TRY(mem_alloc(&mem_default, sizeof(struct disk_state), "a reader's state", &memory));
    reader->state = memory;
    struct disk_state *state = memory;
    struct diskann_disk *disk = &state->disk;
    struct diskann_beside *beside = &state->beside;
    TRY(diskann_disk_header(source, disk)); /* before a file beside it is named */
    TRY(diskann_beside_read(source->path, DISKANN_SET_DISK, beside));
    TRY(source_still_there(source, source->path));
    if (beside->codes) beside->element = ELEMENT_NONE; /* which is what the nodes were made of */
    TRY(diskann_disk_open(source, reader->asked ? reader->asked : beside->element, disk));
    TRY(beside_check(source, disk, beside));
    if (!disk->element)
        return status_fail(VIC_TYPE, "%s: expected the reader's dtype, which a disk index does not say: i8 or u8 by its nodes",
                           source->name);
    state->scale = beside->max_base_norm;
    layout->element = disk->element;
    layout->rows = disk->nodes - disk->frozen;
    layout->dim = vector_dim(disk) - (state->scale > 0);
    layout->metric = beside->metric;
done:
    return status;
}

static uint64_t vector_offset(const struct diskann_disk *disk, int64_t row) {
    if (!disk->reorder_sector) return diskann_node_offset(disk, row);
    uint64_t i = (uint64_t)row, each = (uint64_t)disk->reorder_dim * sizeof(float);
    return (disk->reorder_sector + i / disk->reorder_per_sector) * disk->sector_bytes + i % disk->reorder_per_sector * each;
}

/* Back to what it was before it was divided and got a coordinate, which made it of unit length: any other was not. */
static enum vic_status row_unscale(const struct vic_reader *reader, int64_t node, char *row, const unsigned char *last) {
    const struct disk_state *state = reader->state;
    float value;
    memcpy(&value, last, sizeof value);
    double sum = (double)value * (double)value;
    for (int64_t j = 0; j < reader->layout.dim; j++) {
        memcpy(&value, row + j * 4, sizeof value);
        sum += (double)value * (double)value;
        value *= state->scale;
        memcpy(row + j * 4, &value, sizeof value);
    }
    if (fabs(sum - 1) <= 1e-2) return VIC_OK;
    return status_fail(
        VIC_FORMAT,
        "%s: expected vectors of length 1, since _max_base_norm.bin lies beside it, found length %g at node %" PRId64,
        reader->source.name, sqrt(sum), node);
}

static enum vic_status disk_read(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes) {
    const struct disk_state *state = reader->state;
    uint64_t row_bytes = (uint64_t)reader->layout.dim * element_bytes(reader->layout.element);
    uint64_t end = vector_offset(&state->disk, first + count - 1) + row_bytes + (state->scale > 0 ? sizeof(float) : 0);
    struct window window = {.source = &reader->source, .end = end};
    const unsigned char *bytes = NULL;
    enum vic_status status = VIC_OK;
    fpenv caller = fpenv_enter();
    for (int64_t i = 0; i < count; i++) {
        char *row = out + i * stride_bytes;
        uint64_t offset = vector_offset(&state->disk, first + i);
        if (row_bytes > sizeof window.data) {
            TRY(source_read(&reader->source, offset, row, row_bytes));
        } else {
            TRY(window_get(&window, offset, row_bytes, &bytes));
            memcpy(row, bytes, (size_t)row_bytes);
        }
        if (state->scale == 0) continue;
        TRY(window_get(&window, offset + row_bytes, sizeof(float), &bytes));
        TRY(row_unscale(reader, first + i, row, bytes));
    }
done:
    fpenv_leave(caller);
    return status;
}

static void disk_close(struct vic_reader *reader) { mem_free(&mem_default, reader->state, sizeof(struct disk_state)); }

/* Product codes that an index takes need both files, and those of 2021 are in several. */
static void codes_describe(const struct diskann_beside *beside, struct vic_file_info *info) {
    const struct diskann_pivots *pivots = &beside->pivots;
    bool codes = beside->codes_rows >= 0, both = codes && pivots->dim >= 0;
    char norm[64] = "";
    if (!codes && pivots->dim < 0) return;
    if (!both || pivots->chunks == 0) {
        (void)snprintf(info->pq_note, sizeof info->pq_note, "left alone: %s",
                       both    ? "_pq_pivots.bin is of 2021, whose other parts lie in more files"
                       : codes ? "there is no _pq_pivots.bin beside _pq_compressed.bin"
                               : "there is no _pq_compressed.bin beside _pq_pivots.bin");
        return;
    }
    info->pq_chunks = (int32_t)beside->codes_chunks, info->pq_centres = DISKANN_CENTRES;
    if (beside->max_base_norm > 0)
        (void)snprintf(norm, sizeof norm, ", one coordinate more and rows divided by %g", (double)beside->max_base_norm);
    (void)snprintf(info->pq_note, sizeof info->pq_note, "pivots of %d offsets, dim %" PRId64 "%s, %s", pivots->offsets,
                   pivots->dim, norm, beside->rotated ? "a rotation" : "no rotation");
}

static void disk_describe(const struct vic_reader *reader, struct vic_file_info *info) {
    const struct disk_state *state = reader->state;
    const struct diskann_disk *disk = &state->disk;
    char inside[64] = "";
    if (disk->per_sector) (void)snprintf(inside, sizeof inside, "%" PRIu64 " nodes a sector", disk->per_sector);
    if (!disk->per_sector) (void)snprintf(inside, sizeof inside, "%" PRIu64 " sectors a node", node_sectors(disk));
    (void)snprintf(info->note, sizeof info->note,
                   "disk index of DiskANN (%s): %" PRId64 " nodes of %" PRIu64 " bytes, %s, degree %" PRId64 ", medoid %" PRId64
                   ", %" PRId64 " frozen%s%s",
                   diskann_generation_name(disk->generation), disk->nodes, disk->node_bytes, inside, disk->degree, disk->medoid,
                   disk->frozen, state->scale > 0 ? ", inner product with an extra coordinate" : "",
                   disk->reorder_sector ? ", full vectors behind the nodes" : "");
    codes_describe(&state->beside, info);
}

const struct reader_format diskann_disk_format = {.name = "diskann-disk",
                                                  .endings = {{"index", ELEMENT_NONE}},
                                                  .holds = HOLDS_VECTORS,
                                                  .probe = disk_probe,
                                                  .open = disk_open,
                                                  .read = disk_read,
                                                  .close = disk_close,
                                                  .describe = disk_describe};
