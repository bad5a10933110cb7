/* vicinal: which k of n stored vectors are nearest, answered exactly and bit for bit the same on every path.
 *
 * Five nouns: device (where the arithmetic runs), index (rows that are searched), matrix (caller's vectors, described),
 * filter (which rows may answer), reader (vectors in files). One shape of call: inputs first, options (NULL: all defaults),
 * output last and written only on success. Every fallible function returns a vic_status; vic_last_error() then holds one
 * sentence: what was expected, what was found, where. The library never prints, exits or aborts.
 *
 * Options structs begin with `size`: write { .size = sizeof options } and leave all else zero for the defaults. A caller
 * compiled against an older or a newer header works as long as it sets no field that this library does not know.
 * Shape letters: n rows, nq queries, dim dimensions, k hits a query. Valid C99 and C++. */
#ifndef VICINAL_H
#define VICINAL_H

#include <stddef.h>
#include <stdint.h>

#define VIC_VERSION_MAJOR 0
#define VIC_VERSION_MINOR 1
#define VIC_VERSION_PATCH 0

#if defined(__GNUC__)
#define VIC_API __attribute__((visibility("default")))
#else
#define VIC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- status */

/* Every status once: name, value, what it means. Values never change; new ones are appended. */
#define VIC_STATUS_LIST(ROW)                                                                                                   \
    ROW(VIC_OK, 0, "success")                                                                                                  \
    ROW(VIC_ARGUMENT, 1, "an argument or option is out of range or contradicts another")                                       \
    ROW(VIC_DIMENSION, 2, "two dimensions or counts that must agree do not")                                                   \
    ROW(VIC_TYPE, 3, "the element type does not fit here")                                                                     \
    ROW(VIC_NOT_FINITE, 4, "a vector holds NaN or infinity")                                                                   \
    ROW(VIC_ID, 5, "an id is negative, repeated or already in use")                                                            \
    ROW(VIC_NOT_FOUND, 6, "no such id, file or device")                                                                        \
    ROW(VIC_NO_MEMORY, 7, "memory could not be had")                                                                           \
    ROW(VIC_BUDGET, 8, "the plan needs more memory than the budget allows")                                                    \
    ROW(VIC_IO, 9, "the operating system refused a file operation")                                                            \
    ROW(VIC_NO_SPACE, 10, "the file system is full")                                                                           \
    ROW(VIC_FORMAT, 11, "the file is not what it should be")                                                                   \
    ROW(VIC_VERSION, 12, "the file needs a newer library")                                                                     \
    ROW(VIC_CHECKSUM, 13, "bytes of the file were changed after they were written")                                            \
    ROW(VIC_LOCKED, 14, "another writer holds the file")                                                                       \
    ROW(VIC_UNSUPPORTED, 15, "this build or this index cannot do that")                                                        \
    ROW(VIC_UNAVAILABLE, 16, "the device, its driver or its backend is not here")                                              \
    ROW(VIC_CANCELLED, 17, "the progress callback asked to stop")                                                              \
    ROW(VIC_CAPACITY, 18, "the caller's arrays are too small for the answer")                                                  \
    ROW(VIC_DEVICE_ERROR, 19, "the device reported an error")                                                                  \
    ROW(VIC_FORKED, 20, "the handle was opened before fork() and cannot be used in a child")                                   \
    ROW(VIC_INTERNAL, 21, "a promise inside the library was broken; please report it")

enum vic_status {
#define VIC_STATUS_ENUM(name, value, sentence) name = value,
    VIC_STATUS_LIST(VIC_STATUS_ENUM)
#undef VIC_STATUS_ENUM
};

/* The constant's own name ("VIC_BUDGET"); "unknown status" for other numbers. Static, never NULL. Any thread. */
VIC_API const char *vic_status_name(enum vic_status status);
/* What a status means, in general. Static, never NULL. Any thread. */
VIC_API const char *vic_status_meaning(enum vic_status status);
/* The calling thread's last failure as one sentence; "" before the first. Never NULL; valid until this thread's next
 * failing call. A successful call leaves it as it was. */
VIC_API const char *vic_last_error(void);
/* "0.1.0". Static. */
VIC_API const char *vic_version(void);

/* ---------------------------------------------------------------- vectors */

enum vic_dtype { VIC_F32 = 1, VIC_F16, VIC_BF16, VIC_I8, VIC_U8 };
enum vic_metric { VIC_DOT = 1, VIC_COSINE, VIC_L2 };
enum vic_place { VIC_HOST = 1, VIC_DEVICE };

/* Caller's memory, described, never owned: `rows` vectors of `dim` elements, one every `stride_bytes` (0: packed).
 * dtype 0 means VIC_F32, place 0 means VIC_HOST. The library reads through `data` and never writes, except where a
 * function's comment says that the matrix is an output. */
struct vic_matrix {
    void *data;
    int64_t rows, dim, stride_bytes;
    enum vic_dtype dtype;
    enum vic_place place;
};

/* Names of the field and their aliases ("ip", "inner_product", "euclidean", "float32" ...), any case.
 * VIC_ARGUMENT with the nearest known name in the sentence otherwise. Any thread. */
VIC_API enum vic_status vic_metric_parse(const char *name, enum vic_metric *metric);
VIC_API enum vic_status vic_dtype_parse(const char *name, enum vic_dtype *dtype);
/* "dot", "cosine", "l2"; "f32", "f16", "bf16", "i8", "u8"; "?" for other numbers. Static. */
VIC_API const char *vic_metric_name(enum vic_metric metric);
VIC_API const char *vic_dtype_name(enum vic_dtype dtype);
/* Bytes of one element; 0 for other numbers. */
VIC_API size_t vic_dtype_bytes(enum vic_dtype dtype);

/* ---------------------------------------------------------------- memory and progress hooks */

/* allocate returns memory aligned to `alignment` (a power of two) or NULL; release gets the same `bytes` back.
 * Both or neither; called from any thread, never on the search path. All zero: the C library's. */
struct vic_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
};

struct vic_progress_state {
    const char *stage;   /* "reading", "writing" ...: static */
    int64_t done, total; /* in the stage's own unit; total 0 when it is not known */
    double seconds;      /* since the stage began */
};

/* Called from the thread that made the call, at most ten times a second and once at the end of a stage. A non-zero
 * answer cancels: the call returns VIC_CANCELLED and nothing half-built is left. Rows on their way to a GPU are a
 * stage of a build or an open, "uploading", counted in rows; a build into a file does not report it, for the
 * file is there by then. */
struct vic_progress {
    int (*report)(void *user, const struct vic_progress_state *state);
    void *user;
};

/* ---------------------------------------------------------------- device */

struct vic_device; /* the CPU or one GPU; owns threads, streams, workspaces and a memory budget */

struct vic_device_options {
    size_t size;
    const char *name;      /* "cpu", or "auto" (NULL): the best that is here */
    int32_t threads;       /* 0: one for each core this process may run on; at most 1024 */
    int32_t reserved;      /* zero */
    uint64_t host_bytes;   /* budget for all that this device holds in host memory; 0: the machine's memory */
    uint64_t device_bytes; /* the same for a GPU's memory */
    struct vic_allocator allocator;
};

struct vic_device_info {
    size_t size;        /* set by the caller: sizeof the struct it was compiled with */
    char name[32];      /* what vic_device_options.name takes */
    char model[96];     /* the processor's own name */
    char kernels[64];   /* which CPU kernels run, "avx512+vnni" */
    char sentence[256]; /* why it cannot be used; "" when it can */
    int32_t usable, threads;
    uint64_t host_bytes, host_used, host_peak; /* budget, held now, most ever held */
    uint64_t device_bytes, device_used, device_peak;
};

/* Opens a device. NULL options: the best device, all cores, no budget but the machine's. Any thread; the handle may be
 * used by all. Free it with vic_device_free after the indexes opened on it.
 * VIC_UNAVAILABLE: no such device here, the sentence says what is missing. VIC_ARGUMENT: unknown name, thread count. */
VIC_API enum vic_status vic_device_open(const struct vic_device_options *options, struct vic_device **device);
/* What the device is and holds. info->size must be set. Any thread. */
VIC_API enum vic_status vic_device_info(const struct vic_device *device, struct vic_device_info *info);
/* Describes every device this library knows of, usable or not, into infos[0..capacity); *count is how many there are,
 * also when that is more than capacity. infos[i].size must be set. infos may be NULL with capacity 0. Any thread. */
VIC_API enum vic_status vic_device_list(struct vic_device_info *infos, int64_t capacity, int64_t *count);

/* What decides when planes pay and when a search turns to a scan. Never seen in an answer. */
struct vic_calibration {
    size_t size;            /* set by the caller */
    double scan_bytes_s;    /* bytes of rows that a scan reads in a second */
    double plane_8_bytes_s; /* bytes of 8-bit codes that a search on planes reads in a second */
    double plane_4_bytes_s; /* the same of 4-bit codes */
    double rescore_cost;    /* time of a row read here and there over that of one that streams by */
    double handover_us;     /* what a search on planes takes where there is nothing to read */
    double seconds;         /* how long the measuring took */
};

/* Measures the CPU of this device, in about two seconds and 130 MB of its host memory, uses the result for this device from
 * now on and keeps it in a small file, which vic_device_open reads where model and kernels are the same. `path` NULL:
 * vicinal/calibration.json below $XDG_CACHE_HOME or ~/.cache, the only place that is read later. result may be NULL, else
 * result->size must be set. No other call may use the device meanwhile. VIC_NOT_FOUND: no such folder; what was measured
 * is used all the same. Without a file, or with one that is not ours, constants that are built in serve. */
VIC_API enum vic_status vic_device_calibrate(struct vic_device *device, const char *path, struct vic_calibration *result);
/* NULL is accepted. No index of the device may be alive. */
VIC_API void vic_device_free(struct vic_device *device);

/* ---------------------------------------------------------------- texts */

/* One text a row: text i is bytes[offsets[i] .. offsets[i+1]). Any bytes; UTF-8 is expected. offsets has count+1
 * entries, starts at 0 and never falls. Borrowed for the duration of a call; filled and owned by vic_texts_read. */
struct vic_texts {
    const char *bytes;
    const int64_t *offsets;
    int64_t count;
};

/* Reads a file of lines (LF or CRLF; a last line without an end counts). Free with vic_texts_free. Any thread. */
VIC_API enum vic_status vic_texts_read(const char *path, struct vic_texts *texts);
/* Frees what vic_texts_read filled and zeroes it. NULL is accepted. */
VIC_API void vic_texts_free(struct vic_texts *texts);

/* ---------------------------------------------------------------- readers and writers of vector files */

struct vic_reader;
struct vic_writer;

struct vic_reader_options {
    size_t size;
    /* Element type to take from the file. 0: the file's own, or by its name (.fbin, .u8bin, .i8bin, .f16bin); needed for
     * a .bin. VIC_F32 on a float64 file converts, each value rounded to nearest; without it float64 is refused. */
    enum vic_dtype dtype;
    int32_t reserved;
    const char *format;  /* "fvecs", "bin", "npy", "hdf5" ...: forces the reader; NULL: recognised from bytes and name */
    const char *dataset; /* HDF5: which data set; NULL: "train" */
};

struct vic_section_info {
    char name[24];
    uint64_t offset, bytes;
};

struct vic_file_info {
    size_t size;            /* set by the caller */
    char format[24];        /* "vicinal", "fvecs", "npy", "bin", "hdf5", "truth", "diskann-disk", "text", "unknown" ... */
    char element[16];       /* the element type as the file has it: "f32", "f64", "i32" ... */
    char note[256];         /* one sentence for a person; for a wrong file, what it looks like */
    enum vic_dtype dtype;   /* the type that a reader would give; 0 when it is none of ours */
    enum vic_metric metric; /* where the file says one; 0 otherwise */
    int64_t rows, dim;
    uint64_t bytes;
    int32_t version, section_count; /* our container: format version and sections; 0 otherwise */
    struct vic_section_info sections[32];
    int32_t pq_chunks, pq_centres; /* product codes beside a disk index of DiskANN: bytes a row, values a byte takes; 0: none */
    char pq_note[128];             /* what else is known of them, or why they are left alone; "" where there is nothing */
};

/* What a file is, from its bytes; never trusts its name alone. info->size must be set. Any thread.
 * VIC_NOT_FOUND, VIC_IO. A file of no known kind is no error: format "unknown" and a note. */
VIC_API enum vic_status vic_file_info(const char *path, struct vic_file_info *info);

/* Opens a file of vectors; its size is checked against its header before anything is allocated. Free with
 * vic_reader_close. One thread at a time a reader. VIC_FORMAT names what the file looks like instead. */
VIC_API enum vic_status vic_reader_open(const char *path, const struct vic_reader_options *options, struct vic_reader **reader);
/* Rows, dim and element type that vic_reader_read gives, and the metric if the file says one. */
VIC_API enum vic_status vic_reader_info(const struct vic_reader *reader, struct vic_file_info *info);
/* Reads rows [first, first + count) into out->data (caller's memory: count * dim elements of out->dtype, which must be
 * the reader's; out->rows >= count, out->dim equal). Little-endian, C order, whatever the file has. */
VIC_API enum vic_status vic_reader_read(struct vic_reader *reader, int64_t first, int64_t count, const struct vic_matrix *out);
/* NULL is accepted. */
VIC_API void vic_reader_close(struct vic_reader *reader);

struct vic_writer_options {
    size_t size;
    const char *format; /* NULL: from the path's ending (.fvecs .bvecs .ivecs .fbin .u8bin .i8bin .f16bin .bin .npy) */
};

/* Creates a file of exactly `rows` vectors beside `path`; it appears under that name only when vic_writer_finish
 * succeeds. Free with vic_writer_free in every case. VIC_TYPE: the format has no such element type. */
VIC_API enum vic_status vic_writer_open(const char *path, int64_t rows, int64_t dim, enum vic_dtype dtype,
                                        const struct vic_writer_options *options, struct vic_writer **writer);
/* Appends rows->rows vectors of the writer's dim and type. */
VIC_API enum vic_status vic_writer_write(struct vic_writer *writer, const struct vic_matrix *rows);
/* Makes the file durable and gives it its name. VIC_DIMENSION when fewer rows were written than were announced. */
VIC_API enum vic_status vic_writer_finish(struct vic_writer *writer);
/* NULL is accepted. Without a finish before it, nothing is left. */
VIC_API void vic_writer_free(struct vic_writer *writer);

/* A whole file into fresh memory; free with vic_matrix_free. Options as for vic_reader_open. */
VIC_API enum vic_status vic_matrix_read(const char *path, const struct vic_reader_options *options, struct vic_matrix *matrix);
/* A whole matrix into a file, atomically. Options as for vic_writer_open. */
VIC_API enum vic_status vic_matrix_write(const char *path, const struct vic_matrix *matrix,
                                         const struct vic_writer_options *options);
/* Frees what vic_matrix_read filled and zeroes it. NULL is accepted. */
VIC_API void vic_matrix_free(struct vic_matrix *matrix);

/* ---------------------------------------------------------------- hits and ground truth */

/* Caller's arrays: ids and scores nq*k (query j's hits at j*k), counts nq; scores and counts may be NULL. */
struct vic_hits {
    int64_t *ids;
    float *scores;
    int32_t *counts;
    enum vic_place place; /* 0: host */
};

/* Neighbours as files hold them. distances is NULL where the file has none. */
struct vic_truth {
    int64_t nq, k;
    int64_t *ids;
    float *distances;
};

/* Reads ground truth or saved hits: .bin (ids and distances, or ids alone), ivecs, npy of integers, HDF5 `neighbors` and
 * `distances`. Free with vic_truth_free. */
VIC_API enum vic_status vic_truth_read(const char *path, struct vic_truth *truth);
/* Writes by the ending: .bin (nq, k, uint32 ids, float32 distances if there are any), .ivecs and .npy (ids alone).
 * Atomic. VIC_ID: an id does not fit the format's 32 bits (an unused slot, -1, is written as all ones). */
VIC_API enum vic_status vic_truth_write(const char *path, const struct vic_truth *truth);
/* NULL is accepted. */
VIC_API void vic_truth_free(struct vic_truth *truth);

/* Recall at k: the share of the k true neighbours found among the first k hits, averaged over queries. Where both carry
 * distances, a hit whose score equals the k-th true distance counts as found (ties), never more than k a query.
 * n: ids must lie in [0, n), or 0 to not check. An id twice in a query's hits or out of range: VIC_ID naming query and
 * slot. Unused slots (-1) find nothing. Any thread. */
VIC_API enum vic_status vic_recall(const struct vic_truth *hits, const struct vic_truth *truth, int64_t k, int64_t n,
                                   double *recall);

/* ---------------------------------------------------------------- deterministic data */

struct vic_generate_options {
    size_t size;
    const char *kind; /* "gauss" (NULL), "clusters", "manifold", "duplicates" */
    uint64_t seed;
    double norm_sigma;      /* gauss: norms are exp(norm_sigma * normal); 0: unit length */
    int64_t clusters;       /* clusters, manifold: how many; 0: 100 */
    double spread;          /* clusters, manifold: standard deviation within a cluster; 0: 0.1 and 0.3 */
    int64_t latent_dim;     /* manifold: dimension underneath; 0: 16 */
    double duplicate_share; /* duplicates: share of rows that copy another; 0: 0.25 */
};

/* Rows [first, first + out->rows) of an endless deterministic data set, into out->data (out->dim, out->dtype: any). Row
 * i depends on the options, dim and i alone (counter-based Philox 4x32-10), never on the thread count or the block.
 * Integer types are scaled to their range. threads: 0 means all cores. */
VIC_API enum vic_status vic_generate(const struct vic_generate_options *options, int64_t first, int32_t threads,
                                     const struct vic_matrix *out);

/* ---------------------------------------------------------------- index */

struct vic_index;

/* Planes: small codes beside the rows, with a proven error, that let an exact search leave most rows unread. The answers'
 * bytes do not depend on them; memory, file and time do. Rows of float types only. */
enum vic_planes {
    VIC_PLANES_NONE = 1,
    VIC_PLANES_8 = 2, /* a byte a dimension: for any data */
    VIC_PLANES_4 = 4  /* half a byte: real embeddings */
};

/* A graph over the rows, for searches that are approximate and look at a small part of the rows. It is built over 8-bit
 * codes (planes), which a graph therefore brings with it, or over integer rows themselves, and walked over those or others
 * (enum vic_codes). The same rows and options give the same graph, byte for byte, on every processor and for any number of
 * threads. */
struct vic_graph_options {
    size_t size;
    int32_t degree; /* most neighbours of a row, 1 to 512; 0: 64 */
    int32_t beam;   /* candidates of a row, 1 to 1024; 0: 100 */
    float alpha;    /* 1 to 2: how much nearer a neighbour's neighbour must be to make it needless; 0: 1.1 */
    int32_t force;  /* non-zero: also for fewer rows than 4096, which are otherwise only scanned */
    /* Product codes beside the graph, so many bytes a row, for walks that look at as little as possible (VIC_CODES_PQ): 1 to
     * the dimensions of a row and at most 1024; 0: none. Centres come from a sample of 65,536 rows. */
    int32_t pq_chunks;
    int32_t reserved;
};

struct vic_build_options {
    size_t size;
    enum vic_metric metric; /* 0: VIC_COSINE */
    /* Type in which rows are stored; 0: as they come. To a narrower float type values are rounded to nearest even and
     * refused when they overflow; to an integer type they must be whole numbers in range. */
    enum vic_dtype dtype;
    const int64_t *ids;            /* one a row, unique, at least 0; NULL: 0, 1, 2 ... */
    const struct vic_texts *texts; /* one a row, or NULL */
    const char *metadata;          /* a JSON object kept with the index, or NULL */
    const char *path; /* build straight into this file, row memory not needed; the index is then that file, opened */
    const struct vic_reader_options *reader; /* vic_index_build_file: how to read the file */
    struct vic_progress progress;
    int32_t planes; /* enum vic_planes added up, to which a graph adds 8 bits; 0: the library looks at a sample and decides */
    int32_t reserved;
    /* NULL: no graph, every search exact. The rows of a graph are held in memory while it is built, also with a path. */
    const struct vic_graph_options *graph;
};

struct vic_plan {
    size_t size;              /* set by the caller */
    uint64_t row_bytes;       /* the rows as stored */
    uint64_t extra_bytes;     /* ids, norms and texts known so far */
    uint64_t workspace_bytes; /* made once, at build or open, for all searches */
    uint64_t host_bytes;      /* their sum: what the device's budget must allow for */
    uint64_t device_bytes;    /* on a GPU */
    uint64_t file_bytes;      /* what a save would write */
    uint64_t code_bytes;      /* of extra_bytes: planes that were asked for */
    uint64_t graph_bytes;     /* of extra_bytes: a graph, and what walks need beside the planes */
    uint64_t build_bytes;     /* of workspace_bytes: what building the graph needs, given back at its end */
};

/* What an index of n rows of dim dimensions would need. Allocates nothing. plan->size must be set. Any thread. */
VIC_API enum vic_status vic_index_plan(const struct vic_device *device, int64_t rows, int64_t dim,
                                       const struct vic_build_options *options, struct vic_plan *plan);

/* Copies rows (host memory) into a new index. Zero rows are valid; dim is 1 to 65,536; at most 2^32-2 rows.
 * All or nothing: VIC_NOT_FINITE names row and column, VIC_ID the id, VIC_DIMENSION both numbers, VIC_BUDGET both byte
 * counts. The index may be searched from any number of threads. Free with vic_index_free before the device. */
VIC_API enum vic_status vic_index_build(struct vic_device *device, const struct vic_matrix *rows,
                                        const struct vic_build_options *options, struct vic_index **index);
/* The same from a file of vectors, read in blocks: with options->path the rows never need to fit in memory. */
VIC_API enum vic_status vic_index_build_file(struct vic_device *device, const char *rows_path,
                                             const struct vic_build_options *options, struct vic_index **index);

struct vic_open_options {
    size_t size;
    int32_t check;  /* non-zero: verify every checksum first, as vic_index_check does */
    int32_t planes; /* enum vic_planes added up: made now in memory where the file has none; 0: what the file has */
    struct vic_progress progress;
    /* DiskANN's files do not say these. metric 0: what lies beside them says, else l2; dtype 0: found where it can be. For a
     * file of ours 0, or what it says. */
    enum vic_metric metric;
    enum vic_dtype dtype;
    /* A graph, built now in place of the one that there may be, over the rows where they lie in the file: they are not
     * copied. With it come 8-bit codes of float types. A save, also one over the same file, keeps both. NULL: what the file
     * has. */
    const struct vic_graph_options *graph;
};

/* Maps an index file. Counts and offsets are checked against the file's size before any use; the rows are read when they
 * are searched (for a GPU: now). The file must not be changed while it is open (saving over it is fine: a save makes a new
 * file). A graph of DiskANN with PREFIX.data beside it, or PREFIX_disk.index, is read into memory instead: an index with a
 * graph whose ids are row numbers, with the product codes of its files. VIC_TYPE: dtype must be given. VIC_UNSUPPORTED: degree
 * over 512. */
VIC_API enum vic_status vic_index_open(struct vic_device *device, const char *path, const struct vic_open_options *options,
                                       struct vic_index **index);

struct vic_save_options {
    size_t size;
    struct vic_progress progress;
    /* NULL: a file of ours. "diskann": PATH, PATH.data and PATH_metadata.bin as DiskANN's index in memory has them; of an index
     * with a graph and without ids of the caller's (VIC_UNSUPPORTED). "diskann-disk": PATH, which ends in _disk.index, and the
     * files beside it, with the index's product codes or some trained for it. Texts, metadata and planes stay behind. */
    const char *format;
};

/* Writes the index to `path`: into a temporary file in the same folder, fsync, rename, fsync of the folder. A crash or a
 * full disk leaves the old file whole. VIC_LOCKED while another save to the same path runs. */
VIC_API enum vic_status vic_index_save(const struct vic_index *index, const char *path, const struct vic_save_options *options);

struct vic_index_info {
    size_t size;   /* set by the caller */
    char kind[16]; /* "flat", "graph" */
    enum vic_metric metric;
    enum vic_dtype dtype;
    int64_t rows, dim;
    int64_t next_id;            /* the next id that a row without one would get */
    int32_t has_texts, has_ids; /* has_ids: ids are the caller's, not 0 .. n-1 */
    uint64_t host_bytes;        /* memory held, beside what is mapped */
    uint64_t mapped_bytes;      /* file bytes mapped; 0 for a built index */
    uint64_t device_bytes;
    uint64_t workspace_bytes; /* of host_bytes */
    const char *metadata;     /* borrowed until the index is freed; "{}" when none was given */
    int32_t planes;           /* enum vic_planes added up; VIC_PLANES_NONE when there are none */
    int32_t reserved;
    int32_t degree;         /* a graph's most neighbours of a row; 0: there is no graph */
    int32_t entries;        /* rows at which walks through it begin */
    int64_t repairs;        /* rows that its build had to tie in by hand */
    int32_t graph_beam;     /* with which the graph was built; 0: not known */
    float graph_alpha;      /* the same */
    char graph_builder[32]; /* what built it, "vicinal 2": another number, another graph of the same rows. "": not known */
    int32_t pq_chunks, pq_centres; /* product codes: bytes a row, values a byte takes; 0: none */
    double pq_error;         /* mean squared distance of rows as coded (cosine: at unit length) from what codes stand for */
    double pq_error_largest; /* the largest of these */
};

/* info->size must be set. Any thread. */
VIC_API enum vic_status vic_index_info(const struct vic_index *index, struct vic_index_info *info);
/* Verifies all checksums of the file behind an opened index and the invariants of its contents (ids sorted and unique,
 * texts in order, rows finite, norms right). VIC_CHECKSUM or VIC_FORMAT names section and place. Any thread. */
VIC_API enum vic_status vic_index_check(const struct vic_index *index, const struct vic_progress *progress);
/* What a graph looks like. */
struct vic_graph_report {
    size_t size; /* set by the caller */
    int64_t rows, edges;
    int64_t symmetric; /* edges whose other direction is there too */
    int64_t unreached; /* rows that no walk can come to */
    int32_t degree, entries;
    int32_t least, most;   /* neighbours of a row */
    int64_t histogram[16]; /* rows by their number of neighbours d, each at d * 16 / (degree + 1) */
};

/* Looks at every edge: milliseconds for a hundred thousand rows, and 4 bytes a row of memory. report->size must be set. Any
 * thread. VIC_UNSUPPORTED: the index has no graph. VIC_FORMAT: slots that are wrong; the sentence names the first. */
VIC_API enum vic_status vic_index_graph(const struct vic_index *index, struct vic_graph_report *report);
/* The text of a row: *text points to *bytes bytes, not terminated, borrowed until the index is freed.
 * VIC_NOT_FOUND: no such id, or the index has no texts. Any thread. */
VIC_API enum vic_status vic_index_text(const struct vic_index *index, int64_t id, const char **text, size_t *bytes);
/* The row as it was given, dim elements of the index's type, into `out` (caller's memory). Any thread. */
VIC_API enum vic_status vic_index_vector(const struct vic_index *index, int64_t id, void *out);
/* The ids of rows [first, first + count) in the index's order, which is ascending by id. */
VIC_API enum vic_status vic_index_ids(const struct vic_index *index, int64_t first, int64_t count, int64_t *ids);
/* NULL is accepted. No search of the index may be running. */
VIC_API void vic_index_free(struct vic_index *index);

/* ---------------------------------------------------------------- filter */

struct vic_filter; /* which rows of one index may answer: one bit a row */

struct vic_filter_options {
    size_t size;
    int32_t exclude; /* non-zero: the ids are the ones that may not answer */
    int32_t reserved;
};

/* From `count` ids in any order; ids that the index does not have and repeated ones are ignored. Copied. For use with
 * this index alone, from any number of threads; free with vic_filter_free before the index. */
VIC_API enum vic_status vic_filter_create(const struct vic_index *index, const int64_t *ids, int64_t count,
                                          const struct vic_filter_options *options, struct vic_filter **filter);
/* How many rows pass. */
VIC_API int64_t vic_filter_count(const struct vic_filter *filter);
/* NULL is accepted. */
VIC_API void vic_filter_free(struct vic_filter *filter);

/* ---------------------------------------------------------------- search */

enum vic_path {
    VIC_PATH_SCAN = 1,  /* every row's canonical score, the best kept as they come */
    VIC_PATH_SELECT,    /* every row's canonical score stored, then selected: large k */
    VIC_PATH_CERTIFIED, /* codes of all rows, then the canonical score of the rows that the codes cannot rule out */
    VIC_PATH_GRAPH /* codes of the rows on a walk through the graph, then the canonical score of the nearest: approximate */
};

/* Why a search went on with a scan after it had begun on planes, or did not begin. */
enum vic_fallback {
    VIC_FALLBACK_NONE = 0,
    VIC_FALLBACK_PLANES,    /* the index has none */
    VIC_FALLBACK_K,         /* k is too large for the workspace, or near the number of rows */
    VIC_FALLBACK_QUERY,     /* integers, or numbers so large or small that the bound does not cover them */
    VIC_FALLBACK_SURVIVORS, /* too many rows could not be ruled out: ties, noise, a filter that leaves fewer than k */
    VIC_FALLBACK_COST,      /* the planner expected a scan to be faster */
    VIC_FALLBACK_FILTER,    /* graph: a filter, which only an exact search honours */
    VIC_FALLBACK_BEAM       /* graph: k or the beam is above 2048 */
};

/* What a walk through a graph looks at to find its way. Hits get their exact score whatever it is. */
enum vic_codes {
    VIC_CODES_ROWS = 1, /* the rows themselves: nothing lost, most to read */
    VIC_CODES_8,        /* 8-bit codes; integer rows are their own, and statistics say VIC_CODES_ROWS */
    VIC_CODES_4,        /* 4-bit codes: the index needs planes of 4 bits */
    VIC_CODES_PQ        /* product codes, a byte a chunk: of a graph built with pq_chunks, or DiskANN's */
};

struct vic_search_stats {
    size_t size; /* set by the caller; the rest is written by the call, summed over its queries */
    enum vic_path path;
    int32_t threads; /* most that worked on it at once */
    int64_t queries;
    int64_t rows_scored;        /* (row, query) pairs that got a canonical score in the first pass */
    int64_t rows_rescored;      /* pairs that got one after a cheaper pass; 0 for a scan */
    int64_t bytes_read;         /* bytes of rows and codes read from memory by the passes */
    int64_t rows_coded[2];      /* (row, query) pairs whose 8-bit, whose 4-bit codes were looked at */
    int64_t fallbacks;          /* queries that were scanned although planes were wanted */
    enum vic_fallback fallback; /* why the last of these was, or why another path than the one asked for was taken */
    int32_t reserved;
    int64_t hops;      /* graph: rows whose neighbours were looked at */
    int64_t distances; /* graph: rows that were looked at on walks */
    int32_t beam;      /* graph: the beam that was used, at least k */
    int32_t parents;
    enum vic_codes codes; /* graph: what was walked over */
    int32_t reserved_2;
};

struct vic_search_options {
    size_t size;
    void *stream;                    /* a GPU's; must be NULL on the CPU */
    const struct vic_filter *filter; /* NULL: every row may answer */
    /* 0: the library chooses, the graph where there is one. An exact one that cannot be taken gives way and stats->fallback
     * says why; the answer's bytes never depend on which of those ran. VIC_PATH_GRAPH without a graph: VIC_UNSUPPORTED. */
    enum vic_path path;
    int32_t reserved;
    struct vic_search_stats *stats; /* NULL: not wanted */
    int32_t beam;    /* graph: rows kept in sight on a walk, 1 and up: more of them find more. 0: 64. At least k are kept */
    int32_t parents; /* graph: rows expanded at once, 1 to 8; 0: 1 */
    /* graph: what to walk over. 0: the library chooses, the 8-bit codes where they are (float types). VIC_UNSUPPORTED: the
     * index has none. */
    enum vic_codes codes;
    int32_t reserved_2;
};

/* The k best rows for each query: best first, equal scores by the smaller id; exact, or with a graph approximate: the best
 * of those that the walk keeps in sight, each with its exact score, the first k of any larger k with the same beam. dot and
 * cosine: larger is better; l2: squared distance, smaller is better. Queries are float32, or of an integer index's own type.
 * Any k from 1; slots beyond the rows there are hold id -1 and the worst score (-inf, +inf for l2), hits->counts says how many
 * are real. Any number of threads at once; allocates nothing; an answer does not depend on the batch around it. VIC_DIMENSION
 * names both dims, VIC_NOT_FINITE query and column, VIC_ARGUMENT k below 1. On failure the arrays hold nothing to rely on. */
VIC_API enum vic_status vic_index_search(const struct vic_index *index, const struct vic_matrix *queries, int64_t k,
                                         const struct vic_search_options *options, const struct vic_hits *hits);

/* Answers of different lengths: query j's are ids[offsets[j] .. offsets[j+1]), best first. Caller's arrays: offsets
 * nq+1, ids and scores `capacity` (scores may be NULL). */
struct vic_ranges {
    int64_t *offsets;
    int64_t *ids;
    float *scores;
    int64_t capacity;
};

/* Every row whose score is at least `score` (dot, cosine) or at most `score` (l2), equality included. options as for a
 * search; where the index has planes they are read first, as there. VIC_CAPACITY: there are more than capacity; offsets
 * are then right and ids and scores hold nothing, so the caller may size the arrays by offsets[nq] and ask again. */
VIC_API enum vic_status vic_index_within(const struct vic_index *index, const struct vic_matrix *queries, float score,
                                         const struct vic_search_options *options, const struct vic_ranges *ranges);

/* Canonical scores of given rows: ids and scores are nq * count, query j's at j * count. Id -1 gets the worst score.
 * VIC_NOT_FOUND names an id that the index does not have. */
VIC_API enum vic_status vic_index_score(const struct vic_index *index, const struct vic_matrix *queries, const int64_t *ids,
                                        int64_t count, const struct vic_search_options *options, float *scores);

#ifdef __cplusplus
}
#endif
#endif
