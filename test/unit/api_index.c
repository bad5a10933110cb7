/* What an index gives back: rows as they were given, texts by id, ids in order, what it says of itself. */
#include "support/scene.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void every_row_comes_back_by_its_id_bit_for_bit(void **state) {
    (void)state;
    struct random random = test_random(1);
    for (int turn = 0; turn < 60; turn++) {
        int pair = turn % TYPE_PAIRS;
        struct shape shape = {.n = 1 + random_below(&random, 600),
                              .nq = 0,
                              .dim = 1 + random_below(&random, 30),
                              .dtype = type_pairs[pair][0],
                              .query_dtype = type_pairs[pair][1],
                              .metric = (enum vic_metric)(1 + turn % 3),
                              .values = VALUES_WILD,
                              .ids = (enum scene_ids)(turn / 3 % 3)};
        struct scene scene;
        scene_make(&random, &shape, &scene);
        struct vic_index *index = index_of(test_device, &scene.data);
        size_t row_bytes = (size_t)shape.dim * vic_dtype_bytes(shape.dtype);
        char *row = take(row_bytes + 1);
        row[row_bytes] = 0x5A;
        for (int64_t i = 0; i < shape.n; i++) {
            must(vic_index_vector(index, scene.ids ? scene.ids[i] : i, row));
            assert_memory_equal(row, (char *)scene.data.rows + (size_t)i * row_bytes, row_bytes);
        }
        assert_int_equal(row[row_bytes], 0x5A);
        free(row);
        vic_index_free(index);
        scene_free(&scene);
    }
}

static int id_compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void ids_are_listed_in_order_from_any_place(void **state) {
    (void)state;
    struct random random = test_random(2);
    for (enum scene_ids kind = 0; kind < IDS_COUNT; kind++) {
        struct shape shape = {
            .n = 300, .nq = 0, .dim = 1, .dtype = VIC_U8, .query_dtype = VIC_U8, .metric = VIC_DOT, .ids = kind};
        struct scene scene;
        int64_t right[300], found[300];
        scene_make(&random, &shape, &scene);
        struct vic_index *index = index_of(test_device, &scene.data);
        struct vic_index_info info = {.size = sizeof info};
        for (int64_t i = 0; i < 300; i++) right[i] = scene.ids ? scene.ids[i] : i;
        qsort(right, 300, 8, id_compare);
        must(vic_index_ids(index, 0, 300, found));
        assert_memory_equal(found, right, sizeof right);
        for (int64_t first = 0; first < 300; first += 37)
            for (int64_t count = 0; first + count <= 300; count += 41) {
                memset(found, 0x5A, sizeof found);
                must(vic_index_ids(index, first, count, found));
                if (count) assert_memory_equal(found, right + first, (size_t)count * 8);
                if (count < 300) assert_true(found[count] == 0x5A5A5A5A5A5A5A5A);
            }
        must(vic_index_info(index, &info));
        assert_int_equal(info.has_ids, kind != IDS_NONE);
        assert_true(info.next_id == right[299] + 1);
        vic_index_free(index);
        scene_free(&scene);
    }
}

static void texts_are_found_by_the_id_of_their_row(void **state) {
    (void)state;
    static const int64_t ids[] = {900, 5, 70}, offsets[] = {0, 9, 9, 14};
    static const float vectors[] = {1, 2, 3};
    static const char bytes[] = "nine\0hund"
                                "seven"; /* a zero byte is a byte of the text */
    struct vic_texts texts = {bytes, offsets, 3};
    struct vic_matrix rows = matrix_of(vectors, 3, 1, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT, .ids = ids, .texts = &texts};
    struct vic_index *index = NULL;
    struct vic_index_info info = {.size = sizeof info};
    const char *text = NULL;
    size_t length = 0;
    must(vic_index_build(test_device, &rows, &options, &index));
    must(vic_index_info(index, &info));
    assert_true(info.has_texts);
    must(vic_index_text(index, 900, &text, &length));
    assert_int_equal(length, 9);
    assert_memory_equal(text, "nine\0hund", 9);
    must(vic_index_text(index, 5, &text, &length));
    assert_int_equal(length, 0);
    must(vic_index_text(index, 70, &text, &length));
    assert_int_equal(length, 5);
    assert_memory_equal(text, "seven", 5);
    const char *kept = text;
    assert_int_equal(vic_index_text(index, 6, &text, &length), VIC_NOT_FOUND);
    assert_non_null(strstr(vic_last_error(), "id 6"));
    assert_ptr_equal(text, kept);
    vic_index_free(index);
}

static void an_index_says_what_it_holds(void **state) {
    (void)state;
    struct random random = test_random(3);
    for (int pair = 0; pair < TYPE_PAIRS; pair++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            struct shape shape = {.n = 77,
                                  .nq = 0,
                                  .dim = 9,
                                  .dtype = type_pairs[pair][0],
                                  .query_dtype = type_pairs[pair][1],
                                  .metric = metric,
                                  .ids = IDS_SHUFFLED};
            struct scene scene;
            struct vic_index_info info = {.size = sizeof info};
            scene_make(&random, &shape, &scene);
            struct vic_index *index = index_with_planes(test_device, &scene.data, VIC_PLANES_4);
            bool integers = shape.dtype == VIC_I8 || shape.dtype == VIC_U8;
            must(vic_index_info(index, &info));
            assert_int_equal(info.metric, metric);
            assert_int_equal(info.dtype, shape.dtype);
            assert_true(info.rows == 77 && info.dim == 9 && !info.has_texts && info.mapped_bytes == 0);
            assert_int_equal(info.planes, integers ? VIC_PLANES_NONE : VIC_PLANES_4);
            assert_true(info.host_bytes > info.workspace_bytes + 77 * 9);
            vic_index_free(index);
            scene_free(&scene);
        }
}

static void an_index_in_memory_can_be_checked(void **state) {
    (void)state;
    struct random random = test_random(4);
    for (int turn = 0; turn < 27; turn++) {
        struct shape shape = {.n = random_below(&random, 200),
                              .nq = 0,
                              .dim = 1 + random_below(&random, 20),
                              .dtype = type_pairs[turn % TYPE_PAIRS][0],
                              .query_dtype = type_pairs[turn % TYPE_PAIRS][1],
                              .metric = (enum vic_metric)(1 + turn / 9),
                              .values = VALUES_WILD,
                              .ids = IDS_SHUFFLED};
        struct scene scene;
        scene_make(&random, &shape, &scene);
        struct vic_index *index = index_of(test_device, &scene.data);
        must(vic_index_check(index, NULL));
        vic_index_free(index);
        scene_free(&scene);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_comes_back_by_its_id_bit_for_bit), cmocka_unit_test(ids_are_listed_in_order_from_any_place),
        cmocka_unit_test(texts_are_found_by_the_id_of_their_row),     cmocka_unit_test(an_index_says_what_it_holds),
        cmocka_unit_test(an_index_in_memory_can_be_checked),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
