/* AVX-512 VNNI: the exact sums of 8-bit vectors. */
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include "backend/cpu/processor.h"

const struct kernels kernels_avx512vnni = {
    .name = "avx512vnni",
    .available = processor_has_avx512vnni,
};
#endif
