/* Memory that runs out at every single request while vector files are read, written, compared or made up: the status says
 * so with a sentence, no block is kept, the count of bytes in use is right, no file is left, and the same call succeeds
 * afterwards. */
#include "support/foreign.h"
#include "support/oracle.h"
#include "support/refusals.h"

#include <stdio.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const struct vic_reader_options as_f32 = {.size = sizeof as_f32, .dtype = VIC_F32};
static float rows[GOLDEN_ROWS * GOLDEN_DIM];
static int64_t ids[GOLDEN_ROWS * GOLDEN_DIM];
static char out_path[2][256]; /* scratch_path would take memory itself */

static enum vic_status matrix_read(const char *path, const struct vic_reader_options *options) {
    struct vic_matrix matrix = {0};
    enum vic_status status = vic_matrix_read(path, options, &matrix);
    vic_matrix_free(&matrix);
    return status;
}
static enum vic_status fvecs_read(void) { return matrix_read("test/data/f.fvecs", NULL); }
static enum vic_status bin_read(void) { return matrix_read("test/data/f.fbin", NULL); }
static enum vic_status fortran_read(void) { return matrix_read("test/data/f4_big_fortran.npy", NULL); }
static enum vic_status double_read(void) { return matrix_read("test/data/f8.npy", &as_f32); }

static enum vic_status truth_read(void) {
    struct vic_truth truth = {0};
    enum vic_status status = vic_truth_read("test/data/ids_distances.bin", &truth);
    vic_truth_free(&truth);
    return status;
}

static enum vic_status texts_read(void) {
    struct vic_texts texts = {0};
    enum vic_status status = vic_texts_read("test/data/README.md", &texts);
    vic_texts_free(&texts);
    return status;
}

static enum vic_status info_read(void) {
    struct vic_file_info info = {.size = sizeof info};
    enum vic_status status = vic_file_info("test/data/README.md", &info);
    return status == VIC_OK && strstr(info.note, "no more") ? VIC_NO_MEMORY : status; /* a refused attempt becomes a note */
}

static enum vic_status matrix_write(void) {
    const struct vic_matrix matrix = matrix_of(rows, GOLDEN_ROWS, GOLDEN_DIM, VIC_F32);
    return vic_matrix_write(out_path[0], &matrix, NULL);
}

static enum vic_status truth_write(void) {
    const struct vic_truth truth = {.nq = GOLDEN_ROWS, .k = GOLDEN_DIM, .ids = ids, .distances = rows};
    return vic_truth_write(out_path[1], &truth);
}

static enum vic_status recall_take(void) {
    const struct vic_truth truth = {.nq = GOLDEN_ROWS, .k = GOLDEN_DIM, .ids = ids, .distances = rows};
    double recall = 0;
    return vic_recall(&truth, &truth, GOLDEN_DIM, 0, &recall);
}

static enum vic_status manifold_make(void) {
    const struct vic_generate_options options = {.size = sizeof options, .kind = "manifold"};
    float made[GOLDEN_ROWS * GOLDEN_DIM] = {0};
    struct vic_matrix out = matrix_of(made, GOLDEN_ROWS, GOLDEN_DIM, VIC_F32);
    return vic_generate(&options, 0, 2, &out);
}

static const struct refusable operations[] = {
    {"fvecs", fvecs_read, 3},           {"bin", bin_read, 3},           {"npy in Fortran order", fortran_read, 3},
    {"npy of float64", double_read, 4}, {"truth", truth_read, 5},       {"texts", texts_read, 3},
    {"file info", info_read, 2},        {"matrix", matrix_write, 2},    {"truth written", truth_write, 1},
    {"recall", recall_take, 1},         {"generate", manifold_make, 3},
};

static void every_request_refused_once(void **state) {
    (void)state;
    refuse_each(operations, sizeof operations / sizeof *operations);
}

static int open_all(void **state) {
    int status = scratch_open(state);
    golden_values(VIC_F32, rows);
    for (int64_t c = 0; c < GOLDEN_ROWS * GOLDEN_DIM; c++) ids[c] = c;
    (void)snprintf(out_path[0], sizeof out_path[0], "%s", scratch_path("rows.npy"));
    (void)snprintf(out_path[1], sizeof out_path[1], "%s", scratch_path("truth.bin"));
    return status;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_request_refused_once)};
    return cmocka_run_group_tests_name("files_allocation", tests, open_all, scratch_close);
}
