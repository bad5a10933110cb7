/* Files of DiskANN, as all its generations write them (docs/diskann.md has the layouts): graphs, disk indexes, and the
 * pivots and codes of product quantisation.
 *
 * Everything is read through a window on the stack, and no count of a file is believed before it has been held against the
 * file's size; nothing here allocates.
 *
 * The surprising rule: these files say neither what they are, nor of which generation, nor of what element type. That is
 * found out by reading them as each that they could be: the lists of neighbours must then name nodes that exist and end where
 * they should. */
#ifndef DATA_DISKANN_H
#define DATA_DISKANN_H

#include "data/reader.h"

enum {
    DISKANN_SECTOR_BYTES = 4096,
    DISKANN_CENTRES = 256,    /* of each chunk of product quantisation */
    DISKANN_DEGREE_MAX = 512, /* neighbours of a node, that diskann_*_each hands out */
    DISKANN_WINDOW_BYTES = 1 << 16
};

/* A part of a file in memory, moved forward as it is read. */
struct window {
    const struct source *source;
    uint64_t end; /* nothing at or beyond this byte is asked for */
    uint64_t begin, bytes;
    unsigned char data[DISKANN_WINDOW_BYTES];
};
/* *at points to `bytes` (at most the window's) from `offset`, valid until the next call. */
enum vic_status window_get(struct window *window, uint64_t offset, uint64_t bytes, const unsigned char **at);

/* Gets each node's neighbours, as the file has them, nodes from 0 up. */
struct diskann_taker {
    enum vic_status (*take)(void *user, int64_t node, const uint32_t *neighbours, uint32_t count);
    void *user;
};

/* ---- the graph of an index in memory */
struct diskann_graph {
    uint64_t header_bytes;   /* 24; 16 in 2021 */
    int64_t nodes, frozen;   /* frozen: how many of the nodes, the last ones, are no rows */
    uint32_t degree, start;  /* degree: as the header says, which may be more than any node has */
    int64_t most_neighbours; /* of a node */
    int64_t edges;
};
/* Whether a file may be one: its first eight bytes are its size. */
bool diskann_graph_claimed(const struct source *source);
/* Reads all lists. Where both headers fit the one that gives `nodes` wins, else the 24 bytes do; nodes -1: not known. */
enum vic_status diskann_graph_open(const struct source *source, int64_t nodes, struct diskann_graph *graph);
/* VIC_UNSUPPORTED when a node has more than DISKANN_DEGREE_MAX neighbours. */
enum vic_status diskann_graph_each(const struct source *source, const struct diskann_graph *graph,
                                   const struct diskann_taker *taker);

/* ---- the index on a disk */
enum diskann_generation {
    DISKANN_2021 = 1, /* five words */
    DISKANN_CPP,      /* a bin of 9 words, or 12 when full vectors lie behind the nodes */
    DISKANN_RUST      /* a bin of 96 bytes: 12 words */
};

struct diskann_disk {
    enum diskann_generation generation;
    int64_t nodes, dim, frozen; /* frozen: 1 when the last node is no row */
    int64_t medoid;
    uint64_t sector_bytes, node_bytes, per_sector; /* per_sector 0: a node takes several sectors */
    uint64_t extra_bytes;                          /* at the end of a node, of the caller's that wrote it */
    uint64_t reorder_sector, reorder_per_sector;   /* 0, or where full vectors lie; nodes then have codes in their place */
    int64_t reorder_dim;
    /* Found out from the nodes. */
    uint64_t coordinate_bytes; /* before the neighbours */
    int64_t degree;            /* that a node has room for */
    enum element element;      /* ELEMENT_NONE: of one byte each, or (2021) of any type */
};
/* The header alone, against the file's size. */
enum vic_status diskann_disk_header(const struct source *source, struct diskann_disk *disk);
/* And what the nodes say; asked: the element type, or ELEMENT_NONE to find it. */
enum vic_status diskann_disk_open(const struct source *source, enum element asked, struct diskann_disk *disk);
/* The byte at which a node begins. */
uint64_t diskann_node_offset(const struct diskann_disk *disk, int64_t node);
enum vic_status diskann_disk_each(const struct source *source, const struct diskann_disk *disk,
                                  const struct diskann_taker *taker);
const char *diskann_generation_name(enum diskann_generation generation);

/* ---- product quantisation */
struct diskann_pivots {
    int64_t dim, chunks;
    int32_t offsets;                              /* how many its table has, 4 or 5 */
    uint64_t centres_at, centroid_at, offsets_at; /* bytes of the file, past each part's own header */
};
/* VIC_UNSUPPORTED when dimensions are in another order than the rows'. */
enum vic_status diskann_pivots_open(const struct source *source, struct diskann_pivots *pivots);
/* centres: 256 * dim, centre c of the chunk that dimension j is in at c * dim + j; centroid: dim, subtracted before coding;
 * offsets: chunks + 1 first dimensions. Finite and in order, or VIC_FORMAT. */
enum vic_status diskann_pivots_read(const struct source *source, const struct diskann_pivots *pivots, float *centres,
                                    float *centroid, uint32_t *offsets);

/* ---- files beside a file: the same name but for its end */
#define DISKANN_DISK_END     "_disk.index"
#define DISKANN_PIVOTS_END   "_pq_pivots.bin"
#define DISKANN_ROTATION_END DISKANN_PIVOTS_END "_rotation_matrix.bin" /* dim x dim float32, row vector times matrix */
enum diskann_set { DISKANN_SET_MEMORY, DISKANN_SET_DISK };
/* What lies beside a graph or a disk index, as far as it is there. */
struct diskann_beside {
    enum vic_metric metric;                /* 0: nothing says */
    enum element element;                  /* ELEMENT_NONE: nothing says */
    int64_t described_rows, described_dim; /* of PREFIX_metadata.bin, which the Python package writes; -1: not there */
    float max_base_norm;              /* disk, inner product: rows were divided by it and got one more coordinate; 0: not so */
    int64_t codes_rows, codes_chunks; /* disk: of PREFIX_pq_compressed.bin; rows -1: not there */
    struct diskann_pivots pivots; /* disk: of PREFIX_pq_pivots.bin; dim -1: not there; of 2021, a plain bin, the dim alone */
    bool rotated;                 /* disk: a rotation lies beside the pivots */
    bool codes;                   /* disk: nodes hold codes in the place of vectors */
};
/* Where `path` with its last `cut` (NULL: nothing) replaced by `suffix`, if it is a file. VIC_NOT_FOUND otherwise. */
enum vic_status diskann_beside_open(const char *path, const char *cut, const char *suffix, struct source *source);
/* The same, but a file that is not there is none: *there says. */
enum vic_status diskann_beside_look(const char *path, const char *cut, const char *suffix, struct source *source, bool *there);
enum vic_status diskann_beside_read(const char *path, enum diskann_set set, struct diskann_beside *beside);
/* The header of a bin that must have exactly the bytes that rows and dim say. */
enum vic_status diskann_bin_open(const struct source *source, uint64_t element_bytes, int64_t *rows, int64_t *dim);

#endif
