/* Fuzz target of ground truth: the bytes choose between .bin, ivecs and npy; what was read is measured against itself. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = input_open(data, size);
    struct vic_truth truth = {0};
    double recall = -1;
    if (vic_truth_read(input.path, &truth) == VIC_OK) {
        if (truth.nq < 0 || truth.k < 1) abort();
        enum vic_status status = vic_recall(&truth, &truth, truth.k, 0, &recall);
        if (status != VIC_ID && (status != VIC_OK || recall != 1.0)) abort();
    }
    vic_truth_free(&truth);
    input_close(&input);
    return 0;
}
