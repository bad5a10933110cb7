/* Fuzz target of the npy reader: any bytes as vectors, as float64 to be converted, and as ids. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = input_open(data, size);
    struct vic_truth truth = {0};
    input_read(&input, "npy", NULL, 0);
    input_read(&input, "npy", NULL, VIC_F32);
    (void)vic_truth_read(input.path, &truth);
    vic_truth_free(&truth);
    input_close(&input);
    return 0;
}
