/* The kernels of backend/sums.h, by processor. */
#ifndef CPU_SUMS_H
#define CPU_SUMS_H

#include "backend/sums.h"

extern code_sums sums8_scalar, sums4_scalar, sums8_avx2, sums4_avx2, sums8_avx512vnni, sums4_avx512vnni;
/* Those of integer rows that are not in kernel_exact.h or scalar.c. */
extern byte_sums i8_dots_avx512vnni, i8_squares_avx512vnni, u8_dots_avx512vnni, u8_squares_avx512vnni;

#endif
