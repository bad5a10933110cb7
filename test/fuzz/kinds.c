/* Fuzz target of telling files apart: any bytes are described, and opened as what they look like. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = input_open(data, size);
    struct vic_file_info info = {.size = sizeof info};
    if (vic_file_info(input.path, &info) == VIC_OK && !memchr(info.note, 0, sizeof info.note)) abort();
    input_read(&input, NULL, NULL, 0);
    input_close(&input);
    return 0;
}
