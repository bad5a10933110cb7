/* What this processor has; pick.c answers, compiled for the plainest one. x86-64 only. */
#ifndef CPU_PROCESSOR_H
#define CPU_PROCESSOR_H

#include <stdbool.h>

bool processor_has_avx2(void);       /* AVX2, FMA and F16C */
bool processor_has_avx512(void);     /* the above and AVX-512 F, BW, VL, DQ */
bool processor_has_avx512vnni(void); /* the above and VNNI */

#endif
