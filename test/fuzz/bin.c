/* Fuzz target of the bin reader: any bytes as each of its element types. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = input_open(data, size);
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++) input_read(&input, "bin", NULL, dtype);
    input_close(&input);
    return 0;
}
