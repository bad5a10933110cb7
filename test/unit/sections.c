/* An index as a file and back: the same bytes, the same answers; and what is refused of a file whose sums are right but
 * whose contents are not. */
#include "support/counting.h"
#include "support/oracle.h"
#include "support/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const char metadata[] = "{ \"name\": \"caf\xc3\xa9\", \"weights\": [0.1, 1e300], \"n\": 12345678901234567 }";
static const struct sample rich = {20, 8, VIC_F32, VIC_COSINE, true, true, metadata, 1, VIC_PLANES_NONE};

/* The rich sample's file. */
static struct blob rich_blob(void) {
    const char *path = scratch_path("rich");
    vic_index_free(sample_build(test_device, &rich, path));
    return blob_read(path);
}

/* ---------------------------------------------------------------- round trips */

static void one_round(const struct sample *sample) {
    struct vic_index *built = sample_build(test_device, sample, NULL);
    must(vic_index_save(built, scratch_path("a"), NULL));
    must(vic_index_save(built, scratch_path("b"), NULL));
    uint64_t hash = sample_hash(built);
    vic_index_free(built); /* the source goes before the copy is used */
    struct blob first = blob_read(scratch_path("a"));
    assert_true(blob_equals_file(&first, scratch_path("b")));

    struct vic_index *opened = NULL, *streamed = sample_build(test_device, sample, scratch_path("streamed"));
    assert_true(blob_equals_file(&first, scratch_path("streamed")));
    must(sample_try_open(test_device, scratch_path("a"), 1, &opened));
    assert_int_equal(sample_hash(opened), hash);
    assert_int_equal(sample_hash(streamed), hash);
    must(vic_index_check(opened, NULL));
    must(vic_index_save(opened, scratch_path("b"), NULL));
    assert_true(blob_equals_file(&first, scratch_path("b")));
    must(vic_index_save(opened, scratch_path("a"), NULL)); /* over the file it is mapped from */
    assert_true(blob_equals_file(&first, scratch_path("a")));
    assert_int_equal(sample_hash(opened), hash);
    must(vic_index_check(opened, NULL));
    vic_index_free(opened);
    vic_index_free(streamed);
    blob_free(&first);
    scratch_clear();
}

static void SAV_07_saved_opened_saved_gives_equal_bytes_and_answers(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{0, 8}, {1, 1}, {20, 8}, {37, 129}, {1000, 3}};
    for (int dtype = VIC_F32; dtype <= VIC_U8; dtype++)
        for (int metric = VIC_DOT; metric <= VIC_L2; metric++)
            for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
                for (int parts = 0; parts < 16; parts++) {
                    const struct sample sample = {shapes[shape][0],
                                                  shapes[shape][1],
                                                  (enum vic_dtype)dtype,
                                                  (enum vic_metric)metric,
                                                  (parts & 1) != 0,
                                                  (parts & 2) != 0,
                                                  parts & 4 ? metadata : NULL,
                                                  5,
                                                  parts & 8 ? VIC_PLANES_8 | VIC_PLANES_4 : VIC_PLANES_NONE};
                    one_round(&sample);
                }
}

static void metadata_comes_back_to_the_letter(void **state) {
    (void)state;
    struct blob blob = rich_blob();
    struct vic_index *index = NULL;
    struct vic_index_info info = {.size = sizeof info};
    must(blob_open(test_device, &blob, 0, &index));
    must(vic_index_info(index, &info));
    assert_string_equal(info.metadata, metadata);
    vic_index_free(index);
    blob_free(&blob);
}

static void EMP_01_an_empty_index_answers_the_same_after_save_and_open(void **state) {
    (void)state;
    static const int64_t batches[] = {0, 1, 19, 20, 21};
    const struct sample empty = {.dim = 8, .dtype = VIC_F32, .metric = VIC_DOT};
    vic_index_free(sample_build(test_device, &empty, scratch_path("empty")));
    struct vic_index *index = sample_open(test_device, scratch_path("empty"));
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        float queries[21 * 8] = {0}, scores[21 * 5];
        int64_t ids[21 * 5];
        int32_t counts[21];
        memset(ids, 0xaa, sizeof ids);
        struct vic_matrix matrix = matrix_of(queries, batches[i], 8, VIC_F32);
        struct vic_hits hits = {.ids = ids, .scores = scores, .counts = counts};
        must(vic_index_search(index, &matrix, 5, NULL, &hits));
        for (int64_t j = 0; j < batches[i] * 5; j++) {
            assert_int_equal(ids[j], -1);
            assert_true(scores[j] < -3.4e38f);
            assert_int_equal(counts[j / 5], 0);
        }
    }
    vic_index_free(index);
}

static void IDS_10_wide_ids_come_back_exactly(void **state) {
    (void)state;
    static const int64_t wide[] = {0, INT64_C(1) << 31, (INT64_C(1) << 32) + 1, INT64_C(1) << 62};
    float rows[] = {1, 0, 2, 0, 3, 0, 4, 0}, query[] = {1, 0}, scores[4];
    struct vic_matrix matrix = matrix_of(rows, 4, 2, VIC_F32), question = matrix_of(query, 1, 2, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT, .ids = wide, .path = scratch_path("wide")};
    struct vic_index *index = NULL;
    int64_t ids[4];
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_build(test_device, &matrix, &options, &index));
    vic_index_free(index);
    must(sample_try_open(test_device, scratch_path("wide"), 1, &index));
    must(vic_index_ids(index, 0, 4, ids));
    assert_memory_equal(ids, wide, sizeof wide);
    must(vic_index_search(index, &question, 4, NULL, &(struct vic_hits){.ids = ids, .scores = scores}));
    for (int i = 0; i < 4; i++) assert_int_equal(ids[i], wide[3 - i]);
    must(vic_index_info(index, &info));
    assert_int_equal(info.next_id, (INT64_C(1) << 62) + 1);
    vic_index_free(index);
}

/* ---------------------------------------------------------------- descriptions that lie */

struct description {
    const char *meta, *says;
    enum vic_status status;
};
#define META(kind, metric, dtype, rows, dim, next_id)                                                                          \
    "{\"kind\":" kind ",\"metric\":" metric ",\"dtype\":" dtype ",\"rows\":" rows ",\"dim\":" dim ",\"next_id\":" next_id      \
    ",\"library\":\"9.9.9\"}"
static const struct description descriptions[] = {
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "20", "8", "200"), "", VIC_OK},
    {"{\"later\":[1,{\"x\":2}],\"kind\":\"flat\",\"metric\":\"cosine\",\"dtype\":\"f32\",\"rows\":20,\"dim\":8,\"next_id\":200,"
     "\"library\":\"\"}",
     "", VIC_OK},
    {META("\"tree\"", "\"cosine\"", "\"f32\"", "20", "8", "200"), "index kind \"tree\", which this library (0.1.0)",
     VIC_VERSION},
    {META("\"flat\"", "\"hamming\"", "\"f32\"", "20", "8", "200"), "metric \"hamming\"", VIC_VERSION},
    {META("\"flat\"", "\"cosine\"", "\"f8\"", "20", "8", "200"), "element type \"f8\"", VIC_VERSION},
    {META("\"flat\"", "\"Cosine\"", "\"f32\"", "20", "8", "200"), "metric \"Cosine\"", VIC_VERSION},
    {META("\"flat\"", "\"cosine\"", "\"f16\"", "20", "8", "200"), "expected 320 bytes in section rows, found 640", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "21", "8", "200"), "section rows", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "40", "4", "200"), "section norms", VIC_FORMAT},
    {META("\"flat\"", "\"dot\"", "\"f32\"", "40", "4", "200"), "section ids", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "4294967295", "8", "200"), "\"rows\" in section meta from 0 to 4294967294",
     VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "4294967294", "65536", "200"), "expected 1125899906318336 bytes", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "9223372036854775807", "8", "200"), "\"rows\"", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "9223372036854775808", "8", "200"), "expected a JSON object", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "-1", "8", "200"), "\"rows\"", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "20.0", "8", "200"), "no whole number \"rows\"", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "\"20\"", "8", "200"), "no whole number \"rows\"", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "20", "0", "200"), "\"dim\" in section meta from 1 to 65536, found 0",
     VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "20", "65537", "200"), "\"dim\"", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "\"f32\"", "20", "8", "-1"), "\"next_id\"", VIC_FORMAT},
    {META("7", "\"cosine\"", "\"f32\"", "20", "8", "200"), "no text \"kind\"", VIC_FORMAT},
    {META("\"flat\"", "null", "\"f32\"", "20", "8", "200"), "no text \"metric\"", VIC_FORMAT},
    {META("\"flat\"", "\"cosine\"", "[]", "20", "8", "200"), "no text \"dtype\"", VIC_FORMAT},
    {"{\"kind\":\"flat\",\"kind\":\"flat\"}", "expected a JSON object", VIC_FORMAT},
    {"[1]", "another JSON value", VIC_FORMAT},
    {"{}", "no text \"kind\"", VIC_FORMAT},
    {"", "expected a JSON object", VIC_FORMAT},
    {"{\"kind\":\"flat\"", "expected a JSON object", VIC_FORMAT},
    {"{\"kind\":\"\xff\xfe\"}", "expected a JSON object", VIC_FORMAT},
};

static void FMT_05_a_lying_description_is_refused_before_anything_is_allocated(void **state) {
    (void)state;
    struct counting counting = {0};
    struct vic_device *counted = device_within(0, 1, &counting);
    struct blob good = rich_blob();
    for (size_t i = 0; i < sizeof descriptions / sizeof *descriptions; i++) {
        struct blob blob = blob_copy(&good);
        struct vic_index *index = NULL;
        section_replace(&blob, "meta", descriptions[i].meta, strlen(descriptions[i].meta));
        blob_write(scratch_path("lie"), blob.bytes, blob.size);
        int64_t requests = counting.requests;
        enum vic_status status = vic_index_open(counted, scratch_path("lie"), NULL, &index);
        if (status != descriptions[i].status || (status != VIC_OK && !strstr(vic_last_error(), descriptions[i].says)))
            fail_msg("%s: %s, %s", descriptions[i].meta, vic_status_name(status), vic_last_error());
        if (status != VIC_OK) assert_int_equal(counting.requests, requests);
        vic_index_free(index);
        blob_free(&blob);
    }
    vic_device_free(counted);
    assert_int_equal(counting.live_blocks, 0);
    blob_free(&good);
}

static void sections_of_another_size_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"rows", "norms", "ids", "text_offsets", "texts"};
    struct blob good = rich_blob();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int change = -1; change <= 1; change += 2) {
            size_t bytes = 0;
            struct blob blob = blob_copy(&good);
            const unsigned char *old = section_bytes(&good, names[i], &bytes);
            unsigned char *other = take(bytes + 1);
            memcpy(other, old, bytes);
            other[bytes] = 0;
            section_replace(&blob, names[i], other, bytes + (size_t)change);
            blob_refused(test_device, &blob, VIC_FORMAT, names[i]);
            free(other);
            blob_free(&blob);
        }
    blob_free(&good);
}

/* Renaming a section hides it from a reader. */
static void missing_sections_are_named(void **state) {
    (void)state;
    static const struct {
        const char *name, *says;
    } missing[] = {{"meta", "section meta"},
                   {"rows", "expected a section rows"},
                   {"norms", "expected a section norms"},
                   {"text_offsets", "expected a section text_offsets"},
                   {"texts", "none named texts"}};
    struct blob blob = rich_blob();
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        size_t entry = page_entry(&blob, missing[i].name);
        blob.bytes[entry] = 'x';
        page_seal(&blob);
        blob_refused(test_device, &blob, VIC_FORMAT, missing[i].says);
        blob.bytes[entry] = (unsigned char)missing[i].name[0];
    }
    struct vic_index *index = NULL;
    page_seal(&blob);
    must(blob_open(test_device, &blob, 1, &index));
    vic_index_free(index);
    blob_free(&blob);
}

static void sections_of_a_later_version_are_ignored(void **state) {
    (void)state;
    struct blob blob = rich_blob();
    struct vic_index *plain = sample_open(test_device, scratch_path("rich")), *index = NULL;
    size_t entry = page_entry(&blob, "metadata");
    blob.bytes[entry] = 'x'; /* a section nobody knows, and no metadata */
    page_set(&blob, PAGE_OPTIONAL, 8, 1);
    page_seal(&blob);
    must(blob_open(test_device, &blob, 1, &index));
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    assert_string_equal(info.metadata, "{}");
    assert_int_equal(info.rows, 20);
    vic_index_free(index);
    vic_index_free(plain);
    blob_free(&blob);
}

static void wrong_metadata_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "[]", "{\"a\":1", "{}x", "{\"a\":\"\xff\"}"};
    struct blob good = rich_blob();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct blob blob = blob_copy(&good);
        section_replace(&blob, "metadata", wrong[i], strlen(wrong[i]));
        blob_refused(test_device, &blob, VIC_FORMAT, "metadata is not a JSON object");
        blob_free(&blob);
    }
    struct blob blob = blob_copy(&good);
    section_replace(&blob, "metadata", "{}\0{}", 5);
    blob_refused(test_device, &blob, VIC_FORMAT, "zero byte");
    blob_free(&blob);
    blob_free(&good);
}

/* What is parsed is verified first, also without a check. */
static void a_flip_in_what_is_parsed_shows_at_open(void **state) {
    (void)state;
    static const char *const names[] = {"meta", "metadata"};
    struct blob blob = rich_blob();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t bytes = 0;
        unsigned char *section = section_bytes(&blob, names[i], &bytes);
        for (size_t at = 0; at < bytes; at++) {
            section[at] ^= 1;
            blob_refused(test_device, &blob, VIC_CHECKSUM, names[i]);
            section[at] ^= 1;
        }
    }
    blob_free(&blob);
}

/* ---------------------------------------------------------------- contents that lie */

static void put_i64(struct blob *blob, const char *name, size_t entry, int64_t value) {
    size_t bytes = 0;
    memcpy(section_bytes(blob, name, &bytes) + entry * 8, &value, 8);
    page_seal(blob);
}

static void check_names_the_id_that_is_out_of_order(void **state) {
    (void)state;
    struct blob good = rich_blob(); /* ids 3, 10, 17 ... 136 */
    static const struct {
        size_t entry;
        int64_t value;
        const char *says;
    } wrong[] = {{0, -1, "section ids: expected more than -1 at row 0, found -1"},
                 {5, 31, "section ids: expected more than 31 at row 5, found 31"},
                 {5, 45, "section ids: expected more than 45 at row 6, found 45"},
                 {7, INT64_MIN, "at row 7"},
                 {19, INT64_MAX, "next_id above the largest id 9223372036854775807, found 137"},
                 {19, 137, "next_id above the largest id 137, found 137"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct blob blob = blob_copy(&good);
        put_i64(&blob, "ids", wrong[i].entry, wrong[i].value);
        blob_found_by_check(test_device, &blob, wrong[i].says);
        blob_free(&blob);
    }
    blob_free(&good);
}

static void a_next_id_below_the_rows_is_found(void **state) {
    (void)state;
    const struct sample plain = {20, 8, VIC_F32, VIC_DOT, false, false, NULL, 1, 0};
    static const char meta[] = META("\"flat\"", "\"dot\"", "\"f32\"", "20", "8", "19");
    vic_index_free(sample_build(test_device, &plain, scratch_path("plain")));
    struct blob blob = blob_read(scratch_path("plain"));
    section_replace(&blob, "meta", meta, sizeof meta - 1);
    blob_found_by_check(test_device, &blob, "next_id above the largest id 19, found 19");
    blob_free(&blob);
}

static void check_names_the_text_that_is_out_of_order(void **state) {
    (void)state;
    struct blob good = rich_blob();
    static const struct {
        size_t entry;
        int64_t value;
        const char *says;
    } wrong[] = {
        {3, 1000, "at entry 4"}, {3, -5, "at entry 3"}, {19, INT64_MAX, "at entry 20"}, {19, INT64_MIN, "at entry 19"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct blob blob = blob_copy(&good);
        put_i64(&blob, "text_offsets", wrong[i].entry, wrong[i].value);
        blob_found_by_check(test_device, &blob, wrong[i].says);
        blob_free(&blob);
    }
    struct blob blob = blob_copy(&good);
    put_i64(&blob, "text_offsets", 0, 1);
    blob_refused(test_device, &blob, VIC_FORMAT, "text_offsets from 0");
    put_i64(&blob, "text_offsets", 0, 0);
    put_i64(&blob, "text_offsets", 20, INT64_MAX);
    blob_refused(test_device, &blob, VIC_FORMAT, "found 0 to 9223372036854775807");
    blob_free(&blob);
    blob_free(&good);
}

/* The last element of the last row in turn, so that no row is skipped. */
static void check_names_a_row_that_is_not_finite(void **state) {
    (void)state;
    static const uint32_t wrong[] = {0x7fc00000, 0x7f800000, 0xff800000, 0xffc00001};
    struct blob good = rich_blob();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t bytes = 0;
        struct blob blob = blob_copy(&good);
        memcpy(section_bytes(&blob, "rows", &bytes) + (i == 0 ? 0 : bytes - 4), &wrong[i], 4);
        page_seal(&blob);
        blob_found_by_check(test_device, &blob, i == 0 ? "row 0, column 0" : "row 19, column 7");
        blob_free(&blob);
    }
    blob_free(&good);
}

static void check_names_a_norm_that_is_not_the_rows(void **state) {
    (void)state;
    static const size_t rows[] = {0, 7, 19};
    struct blob good = rich_blob();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (unsigned bit = 0; bit < 32; bit += 31) {
            size_t bytes = 0;
            char says[64];
            struct blob blob = blob_copy(&good);
            section_bytes(&blob, "norms", &bytes)[rows[i] * 4 + bit / 8] ^= (unsigned char)(1u << bit % 8);
            page_seal(&blob);
            (void)snprintf(says, sizeof says, "for row %zu", rows[i]);
            blob_found_by_check(test_device, &blob, says);
            blob_free(&blob);
        }
    blob_free(&good);
}

/* Rows beyond the first block of a check (65,536 rows) are looked at too, under their own numbers. */
static void check_reaches_every_block(void **state) {
    (void)state;
    const struct sample many = {150000, 1, VIC_F32, VIC_COSINE, false, false, NULL, 1, 0};
    vic_index_free(sample_build(test_device, &many, scratch_path("many")));
    struct blob blob = blob_read(scratch_path("many"));
    size_t bytes = 0;
    struct vic_index *index = NULL;
    section_bytes(&blob, "norms", &bytes)[140000 * 4] ^= 1;
    page_seal(&blob);
    assert_int_equal(blob_open(test_device, &blob, 1, &index), VIC_FORMAT);
    assert_non_null(strstr(vic_last_error(), "for row 140000"));
    blob_free(&blob);
}

static void a_built_index_passes_its_check(void **state) {
    (void)state;
    struct vic_index *index = sample_build(test_device, &rich, NULL);
    must(vic_index_check(index, NULL));
    vic_index_free(index);
}

/* ---------------------------------------------------------------- hooks, memory, description */

struct stages {
    char seen[8][32];
    int count, refuse_at;
};

static int stages_report(void *user, const struct vic_progress_state *state) {
    struct stages *stages = user;
    assert_true(state->done <= state->total);
    if (stages->count < 8) (void)snprintf(stages->seen[stages->count], sizeof stages->seen[0], "%s", state->stage);
    return ++stages->count == stages->refuse_at;
}

static void a_save_that_is_stopped_leaves_nothing(void **state) {
    (void)state;
    struct stages stages = {.refuse_at = 1};
    struct vic_save_options options = {.size = sizeof options, .progress = {stages_report, &stages}};
    struct vic_index *index = sample_build(test_device, &rich, NULL);
    assert_int_equal(vic_index_save(index, scratch_path("stopped"), &options), VIC_CANCELLED);
    assert_int_equal(scratch_count(), 0);
    must(vic_index_save(index, scratch_path("stopped"), &options));
    assert_int_equal(stages.count, 2);
    assert_string_equal(stages.seen[1], "writing");
    vic_index_free(index);
}

static void an_open_with_check_can_be_stopped_at_each_report(void **state) {
    (void)state;
    struct blob blob = rich_blob();
    blob_free(&blob);
    for (int at = 1; at <= 3; at++) {
        struct stages stages = {.refuse_at = at};
        struct vic_open_options options = {.size = sizeof options, .check = 1, .progress = {stages_report, &stages}};
        struct vic_index *index = NULL;
        enum vic_status status = vic_index_open(test_device, scratch_path("rich"), &options, &index);
        assert_int_equal(status, at <= 2 ? VIC_CANCELLED : VIC_OK);
        assert_string_equal(stages.seen[0], "checking");
        if (at >= 2) assert_string_equal(stages.seen[1], "checking rows");
        vic_index_free(index);
    }
}

/* On the CPU rows are searched where they are: nothing is told of an upload, which a GPU has. */
static void no_upload_is_told_of_rows_on_the_cpu(void **state) {
    (void)state;
    static const float rows[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    struct stages stages = {0};
    struct vic_matrix matrix = matrix_of(rows, 4, 2, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .progress = {stages_report, &stages}};
    struct vic_open_options open = {.size = sizeof open, .progress = {stages_report, &stages}};
    struct vic_index *index = NULL;
    must(vic_index_build(test_device, &matrix, &options, &index));
    assert_int_equal(stages.count, 1);
    assert_string_equal(stages.seen[0], "reading rows");
    must(vic_index_save(index, scratch_path("told"), NULL));
    vic_index_free(index);
    must(vic_index_open(test_device, scratch_path("told"), &open, &index));
    assert_int_equal(stages.count, 1);
    vic_index_free(index);
}

static void mapped_rows_are_not_counted_against_the_budget(void **state) {
    (void)state;
    const struct sample large = {40000, 64, VIC_F32, VIC_COSINE, false, false, NULL, 1, 0};
    vic_index_free(sample_build(test_device, &large, scratch_path("large")));
    struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 1, .host_bytes = 8 << 20};
    struct vic_device *tight = NULL;
    struct vic_index *index = NULL;
    must(vic_device_open(&options, &tight));
    assert_int_equal(sample_try_build(tight, &large, NULL, &index), VIC_BUDGET);
    must(sample_try_open(tight, scratch_path("large"), 1, &index));
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    assert_true(info.mapped_bytes > 40000 * 64 * 4);
    assert_true(info.host_bytes < 8 << 20);
    vic_index_free(index);
    vic_device_free(tight);
}

static void file_info_describes_an_index(void **state) {
    (void)state;
    struct blob blob = rich_blob();
    struct vic_file_info info = {.size = sizeof info};
    must(vic_file_info(scratch_path("rich"), &info));
    assert_string_equal(info.format, "vicinal");
    assert_string_equal(info.element, "f32");
    assert_int_equal(info.rows, 20);
    assert_int_equal(info.dim, 8);
    assert_int_equal(info.dtype, VIC_F32);
    assert_int_equal(info.metric, VIC_COSINE);
    assert_int_equal(info.bytes, blob.size);
    assert_int_equal(info.version, 1);
    assert_int_equal(info.section_count, 7);
    assert_string_equal(info.sections[0].name, "rows");
    assert_int_equal(info.sections[0].offset, 4096);
    assert_int_equal(info.sections[0].bytes, 640);
    assert_non_null(strstr(info.note, "flat index, cosine, 20 rows of 8 f32, own ids, texts, written by vicinal 0.1.0"));
    blob_free(&blob);
}

static void file_info_says_what_is_wrong_and_does_not_fail(void **state) {
    (void)state;
    struct blob good = rich_blob();
    struct vic_file_info info = {.size = sizeof info};
    const char *path = scratch_path("wrong");
    blob_write(path, good.bytes, 100);
    must(vic_file_info(path, &info));
    assert_string_equal(info.format, "vicinal");
    assert_non_null(strstr(info.note, "cut short"));
    blob_write(path, good.bytes, good.size - 1);
    must(vic_file_info(path, &info));
    assert_non_null(strstr(info.note, "expected"));
    struct blob blob = blob_copy(&good);
    page_set(&blob, PAGE_REQUIRED, 8, 1 << 7);
    page_seal(&blob);
    blob_write(path, blob.bytes, blob.size);
    must(vic_file_info(path, &info));
    assert_non_null(strstr(info.note, "feature bit 7"));
    page_set(&blob, PAGE_REQUIRED, 8, 0);
    section_replace(&blob, "meta", "{}", 2);
    blob_write(path, blob.bytes, blob.size);
    must(vic_file_info(path, &info));
    assert_int_equal(info.section_count, 7);
    assert_non_null(strstr(info.note, "no text \"kind\""));
    assert_int_equal(info.rows, 0);
    blob_free(&blob);
    blob_free(&good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(SAV_07_saved_opened_saved_gives_equal_bytes_and_answers, scratch_empty),
        cmocka_unit_test_teardown(metadata_comes_back_to_the_letter, scratch_empty),
        cmocka_unit_test_teardown(EMP_01_an_empty_index_answers_the_same_after_save_and_open, scratch_empty),
        cmocka_unit_test_teardown(IDS_10_wide_ids_come_back_exactly, scratch_empty),
        cmocka_unit_test_teardown(FMT_05_a_lying_description_is_refused_before_anything_is_allocated, scratch_empty),
        cmocka_unit_test_teardown(sections_of_another_size_are_refused, scratch_empty),
        cmocka_unit_test_teardown(missing_sections_are_named, scratch_empty),
        cmocka_unit_test_teardown(sections_of_a_later_version_are_ignored, scratch_empty),
        cmocka_unit_test_teardown(wrong_metadata_is_refused, scratch_empty),
        cmocka_unit_test_teardown(a_flip_in_what_is_parsed_shows_at_open, scratch_empty),
        cmocka_unit_test_teardown(check_names_the_id_that_is_out_of_order, scratch_empty),
        cmocka_unit_test_teardown(a_next_id_below_the_rows_is_found, scratch_empty),
        cmocka_unit_test_teardown(check_names_the_text_that_is_out_of_order, scratch_empty),
        cmocka_unit_test_teardown(check_names_a_row_that_is_not_finite, scratch_empty),
        cmocka_unit_test_teardown(check_names_a_norm_that_is_not_the_rows, scratch_empty),
        cmocka_unit_test_teardown(check_reaches_every_block, scratch_empty),
        cmocka_unit_test_teardown(a_built_index_passes_its_check, scratch_empty),
        cmocka_unit_test_teardown(a_save_that_is_stopped_leaves_nothing, scratch_empty),
        cmocka_unit_test_teardown(an_open_with_check_can_be_stopped_at_each_report, scratch_empty),
        cmocka_unit_test_teardown(no_upload_is_told_of_rows_on_the_cpu, scratch_empty),
        cmocka_unit_test_teardown(mapped_rows_are_not_counted_against_the_budget, scratch_empty),
        cmocka_unit_test_teardown(file_info_describes_an_index, scratch_empty),
        cmocka_unit_test_teardown(file_info_says_what_is_wrong_and_does_not_fail, scratch_empty),
    };
    return cmocka_run_group_tests(tests, place_of_one_setup, place_teardown);
}
