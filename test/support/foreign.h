/* Files of other programs, made byte by byte, and readers put through everything that a caller may do with them. */
#ifndef TEST_FOREIGN_H
#define TEST_FOREIGN_H

#include "support/scratch.h"
#include "vicinal.h"

/* Growing bytes; free with blob_free. */
void blob_add(struct blob *blob, const void *bytes, size_t count);
void blob_add_u32(struct blob *blob, uint32_t word);

/* The golden array of test/data/README.md (5 rows of dim 3) in a type of ours, packed. */
enum { GOLDEN_ROWS = 5, GOLDEN_DIM = 3 };
void golden_values(enum vic_dtype dtype, void *rows);

/* Opens, asks for the description, reads all rows at once, one by one, and in pieces into rows with gaps whose bytes must
 * stay as they were, holds the three against each other, closes. On success *rows (may be NULL) is a packed copy, to be freed
 * with vic_matrix_free. */
enum vic_status foreign_read(const char *path, const struct vic_reader_options *options, struct vic_matrix *rows);
/* foreign_read must give these rows. */
void foreign_check(const char *path, const struct vic_reader_options *options, enum vic_dtype dtype, int64_t n, int64_t dim,
                   const void *rows);
/* Must be refused with `status` and a sentence that holds `words`. */
void foreign_refused(const char *path, const struct vic_reader_options *options, enum vic_status status, const char *words);

/* Every prefix of the file, and the file with a byte more, must be refused by a sentence that names the file and the size
 * found; prefixes of whole `unit`s (0: none) are good files. */
void foreign_check_cuts(const struct blob *whole, const char *name, const struct vic_reader_options *options, size_t unit);
/* `count` copies with one to three bytes changed: refused, or read in bounds. */
void foreign_check_flips(const struct blob *whole, const char *name, const struct vic_reader_options *options, int count);

#endif
