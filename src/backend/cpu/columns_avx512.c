/* Vectors in columns with AVX-512: 24 of 32 registers are sums. */
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include "backend/cpu/lanes_avx512.h"

enum { COLUMN_SUMS = 16, NEAREST_POINTS = 3, NEAREST_SUMS = 8 };

#include "backend/cpu/kernel_columns.h"

const struct column_kernels column_kernels_avx512 = COLUMN_KERNELS;
#endif
