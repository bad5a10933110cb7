/* Fuzz target of files of lines: the texts must cover their bytes and hold no line end. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = input_open(data, size);
    struct vic_texts texts = {0};
    if (vic_texts_read(input.path, &texts) == VIC_OK) {
        if (texts.offsets[0] != 0 || texts.offsets[texts.count] > (int64_t)size) abort();
        for (int64_t i = 0; i < texts.count; i++)
            if (texts.offsets[i] > texts.offsets[i + 1]) abort();
        if (memchr(texts.bytes, '\n', (size_t)texts.offsets[texts.count])) abort();
    }
    vic_texts_free(&texts);
    input_close(&input);
    return 0;
}
