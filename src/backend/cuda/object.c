/* The object's one exported symbol: the table of operations, and how its failures reach the library's sentence.
 *
 * The object has copies of its own of the base files it needs and shares no symbol with the library, so both can be
 * updated apart as long as BACKEND_ABI is the same. The thread-local sentence exists once, in the library. */
#include "backend/cuda/cuda.h"

#include <stdarg.h>
#include <stdio.h>

static enum vic_status (*library_fail)(enum vic_status status, const char *sentence);

enum vic_status status_fail(enum vic_status status, const char *format, ...) {
    char sentence[STATUS_SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return library_fail(status, sentence);
}

static void start(enum vic_status (*fail)(enum vic_status status, const char *sentence)) { library_fail = fail; }

static const struct backend_ops cuda_ops = {
    .name = "cuda",
    .describe = cuda_describe,
    .open = cuda_open,
    .close = cuda_close,
    .plan = cuda_plan,
    .attach = cuda_attach,
    .detach = cuda_detach,
    .search = cuda_search,
    .within = cuda_within,
    .score = cuda_score,
};

__attribute__((visibility("default"))) const struct backend_object vicinal_backend_object = {BACKEND_ABI, &cuda_ops, start};
