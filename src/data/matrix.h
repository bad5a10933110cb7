/* Callers' matrices: defaults filled in and limits checked, in one place for every function of this folder. */
#ifndef DATA_MATRIX_H
#define DATA_MATRIX_H

#include "base/dtype.h"
#include "base/mem.h"

/* A copy of `given` with dtype, place and stride said. VIC_ARGUMENT (NULL, rows below 0, a stride shorter than a row or
 * not a multiple of the element), VIC_DIMENSION, VIC_TYPE, VIC_UNSUPPORTED (memory of a device). `name` for the sentence. */
enum vic_status matrix_resolve(const struct vic_matrix *given, const char *name, struct vic_matrix *resolved);

#endif
