/* The header that npy.c reads, for those who write one. */
#ifndef DATA_NPY_H
#define DATA_NPY_H

#include "base/status.h"

enum { NPY_HEADER_BYTES = 128 };

/* Version 1.0, C order, little-endian; the data then begin at a multiple of 64. descr as numpy has it: "<f4", "|u1". */
void npy_header(const char *descr, int64_t rows, int64_t dim, unsigned char header[NPY_HEADER_BYTES]);

#endif
