/* Vectors in columns with AVX2: 12 of 16 registers are sums. */
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include "backend/cpu/lanes_avx2.h"

enum { COLUMN_SUMS = 8, NEAREST_POINTS = 3, NEAREST_SUMS = 4 };

#include "backend/cpu/kernel_columns.h"

const struct column_kernels column_kernels_avx2 = COLUMN_KERNELS;
#endif
