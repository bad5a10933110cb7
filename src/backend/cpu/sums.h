/* The kernels of backend/sums.h, by processor. */
#ifndef CPU_SUMS_H
#define CPU_SUMS_H

#include "backend/sums.h"

extern code_sums sums8_scalar, sums4_scalar, sums8_avx2, sums4_avx2, sums8_avx512vnni, sums4_avx512vnni;

#endif
