/* Small indexes of every sort, questions to them, and the bytes of their files taken apart by the numbers that
 * docs/format.md gives, not by the library's own structs. */
#ifndef TEST_SAMPLE_H
#define TEST_SAMPLE_H

#include "support/scratch.h"
#include "vicinal.h"

struct sample {
    int64_t n, dim;
    enum vic_dtype dtype;
    enum vic_metric metric;
    bool ids, texts;      /* ids: 3, 10, 17 ... given in falling order; texts: of 0 to 4 bytes */
    const char *metadata; /* NULL: none */
    uint64_t seed;
    int32_t planes; /* enum vic_planes; 0: as the library likes; SAMPLE_GRAPH, for a graph over it; and SAMPLE_PRODUCT, for
                       product codes with it */
};
enum { SAMPLE_GRAPH = 1 << 16, SAMPLE_PRODUCT = 1 << 17 | SAMPLE_GRAPH, SAMPLE_DEGREE = 5, SAMPLE_CHUNKS = 2 };

/* Builds it, into a file when path is not NULL. Same sample, same index. */
enum vic_status sample_try_build(struct vic_device *device, const struct sample *sample, const char *path,
                                 struct vic_index **index);
struct vic_index *sample_build(struct vic_device *device, const struct sample *sample, const char *path);
/* Opens, or ends the test. */
struct vic_index *sample_open(struct vic_device *device, const char *path);
enum vic_status sample_try_open(struct vic_device *device, const char *path, int32_t check, struct vic_index **index);
/* Asks everything an index can answer, reading every byte that it may; what the answers are does not matter. The status
 * of vic_index_check. */
enum vic_status sample_probe(struct vic_index *index);
/* One number for all that an index answers: hits and scores of fixed queries, ids, texts, vectors, description. */
uint64_t sample_hash(const struct vic_index *index);

/* ---- a file's bytes, opened */
enum vic_status blob_open(struct vic_device *device, const struct blob *blob, int32_t check, struct vic_index **index);
/* A fault that opening must find, with a part of its sentence. */
void blob_refused(struct vic_device *device, const struct blob *blob, enum vic_status wanted, const char *says);
/* A fault that only a check finds, its sums being right: at open when asked, and afterwards. */
void blob_found_by_check(struct vic_device *device, const struct blob *blob, const char *says);

/* ---- a container's bytes */
enum { PAGE = 4096, PAGE_VERSION = 8, PAGE_ORDER = 12, PAGE_REQUIRED = 16, PAGE_OPTIONAL = 24, PAGE_FILE_BYTES = 32 };
enum { PAGE_COUNT = 40, PAGE_ENTRIES = 64, PAGE_CHECKSUM = 4088 };
enum { ENTRY = 64, ENTRY_OFFSET = 24, ENTRY_BYTES = 32, ENTRY_CHECKSUM = 40 };

uint64_t page_get(const struct blob *blob, size_t offset, size_t bytes);
void page_set(struct blob *blob, size_t offset, size_t bytes, uint64_t value);
/* Where the entry of this name begins in the page; 0: not there. */
size_t page_entry(const struct blob *blob, const char *name);
/* Recomputes all checksums that lie within the file. */
void page_seal(struct blob *blob);
/* The bytes of a section. */
unsigned char *section_bytes(const struct blob *blob, const char *name, size_t *bytes);
/* Gives a section other contents of any size, by moving it to the end of the file. */
void section_replace(struct blob *blob, const char *name, const void *bytes, size_t size);

#endif
