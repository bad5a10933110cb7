/* Fuzz target of the fvecs reader. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = input_open(data, size);
    input_read(&input, "fvecs", NULL, 0);
    input_close(&input);
    return 0;
}
