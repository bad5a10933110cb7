/* Files as DiskANN writes them, of any shape and generation, made by the numbers of docs/diskann.md and not by the library's
 * own structs. Node i's neighbours are i + 1, i + 2 ... (modulo the nodes), so that a ring leads everywhere. */
#ifndef TEST_DISKANN_SET_H
#define TEST_DISKANN_SET_H

#include "support/scratch.h"
#include "vicinal.h"

enum header_form { HEADER_CPP, HEADER_2021, HEADER_RUST };

struct diskann_sample {
    int64_t n, dim; /* n: frozen nodes included */
    enum vic_dtype dtype;
    uint32_t room; /* neighbours that the header has room for */
    uint32_t most; /* that node 0 has, others have fewer; 0: room */
    uint32_t start, frozen;
    enum header_form form;
    uint32_t reorder_dim;  /* disk, C++: nodes hold codes, float32 vectors of this dim lie behind; 0: not so */
    uint32_t extra_bytes;  /* disk, Rust: at a node's end */
    uint32_t sector_bytes; /* disk, Rust; 0: 4096 */
};

/* Value (i, j) of the rows, exact in every type; and the packed rows, to be freed. */
void *diskann_rows(const struct diskann_sample *sample);
uint32_t diskann_count(const struct diskann_sample *sample, int64_t node);
uint32_t diskann_neighbour(const struct diskann_sample *sample, int64_t node, uint32_t slot);

struct blob diskann_graph_blob(const struct diskann_sample *sample);
struct blob diskann_data_blob(const struct diskann_sample *sample);
struct blob diskann_disk_blob(const struct diskann_sample *sample);
/* Where a node begins in the disk index, by the formula of docs/diskann.md. */
size_t diskann_node_at(const struct diskann_sample *sample, int64_t node);
/* PREFIX and PREFIX.data, or PREFIX_disk.index, in the scratch folder; the path to open. */
const char *diskann_memory_write(const struct diskann_sample *sample, const char *prefix);
const char *diskann_disk_write(const struct diskann_sample *sample, const char *prefix);

/* A bin in the scratch folder; and pivots of any shape, every chunk of one dimension but the last. */
void bin_write(const char *name, uint32_t rows, uint32_t columns, const void *values, size_t bytes);
void diskann_pivots_write(const char *name, uint32_t dim, uint32_t chunks);

/* A file into the scratch folder, and two that must be the same. */
void file_copy(const char *from, const char *name);
void check_same_files(const char *one, const char *other);

/* Of the sets that DiskANN wrote (test/data/diskann): the first vectors asked of an index, by a walk over codes, or 0: a scan.
 */
#define DISKANN_GOLDEN "test/data/diskann/"
enum { SET_N = 300, SET_DIM = 12, SET_NQ = 20, SET_K = 5 };
struct golden_answers {
    int64_t ids[SET_NQ * SET_K];
    float scores[SET_NQ * SET_K];
};
void golden_ask(const struct vic_index *index, const char *set, enum vic_codes codes, struct golden_answers *answers);
/* A walk over the product codes of a set's disk index finds what DiskANN found, with canonical scores of the rows. */
void golden_walk_agrees(const char *set);

/* The path is not opened on the test's device, with this status and a sentence that holds these words; no memory is held and no
 * file open afterwards. dtype: as in the options. */
void diskann_refused(const char *path, enum vic_dtype dtype, enum vic_status status, const char *words);

#endif
