/* Fuzz target of the bvecs reader. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = input_open(data, size);
    input_read(&input, "bvecs", NULL, 0);
    input_close(&input);
    return 0;
}
