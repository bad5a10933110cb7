/* What a backend that copies rows is given when a file is opened: a way to read all of it, for as long as attach takes. It is
 * the CPU's backend with an attach of the test's own in front, which copies as a GPU's would. */
#include "index/index.h"
#include "support/oracle.h"
#include "support/sample.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const struct sample with_ids = {.n = 700, .dim = 33, .dtype = VIC_F32, .metric = VIC_COSINE, .ids = true, .texts = true};

/* What the attach in front saw, and is to do. */
static struct {
    int attached;
    bool mapped;          /* a file was given */
    void (*before)(void); /* something happens to the file first; then nothing is compared */
    uint64_t parts;       /* copied */
    unsigned char *rows;  /* the last copy of them */
    uint64_t rows_bytes;
} spy;

static enum vic_status part_copy(const struct mapped *mapped, const void *from, uint64_t bytes, unsigned char *to) {
    struct read_fault fault;
    if (!mapped_copy(mapped, from, bytes, to, &fault)) return mapped_fail(mapped, &fault);
    if (!spy.before) assert_memory_equal(to, from, (size_t)bytes);
    spy.parts++;
    return VIC_OK;
}

static enum vic_status spy_attach(struct backend *backend, const struct rows *rows, const struct mapped *mapped,
                                  const struct vic_progress *progress, struct resident **resident) {
    uint64_t n = (uint64_t)rows->n, bytes = rows_bytes(rows);
    unsigned char *copy = take(bytes + n * sizeof(int64_t));
    enum vic_status status = VIC_OK;
    spy.attached++;
    spy.mapped = mapped != NULL;
    if (mapped) {
        assert_true((const char *)rows->data > (const char *)mapped->bytes);
        assert_true(bytes <= mapped->size);
    }
    if (spy.before) spy.before();
    if (rows->norms) TRY(part_copy(mapped, rows->norms, n * sizeof *rows->norms, copy));
    if (rows->ids) TRY(part_copy(mapped, rows->ids, n * sizeof *rows->ids, copy));
    TRY(part_copy(mapped, rows->data, bytes, copy));
    free(spy.rows);
    spy.rows = copy, spy.rows_bytes = bytes, copy = NULL;
    status = cpu_backend.attach(backend, rows, mapped, progress, resident);
done:
    free(copy);
    return status;
}

static struct vic_device *spied_device(struct backend_ops *ops) {
    struct vic_device *device = device_of(2);
    *ops = cpu_backend;
    ops->attach = spy_attach;
    device->ops = ops;
    return device;
}

static int setup(void **state) {
    memset(&spy, 0, sizeof spy);
    return scratch_open(state);
}
static int teardown(void **state) {
    free(spy.rows);
    return scratch_close(state);
}

/* One more than are open, as descriptors are given out from below. */
static int descriptor_next(void) {
    int next = dup(0);
    assert_true(next >= 0);
    (void)close(next);
    return next;
}

static void rows_norms_and_ids_of_every_type_are_read_from_the_file(void **state) {
    (void)state;
    struct backend_ops ops;
    struct vic_device *device = spied_device(&ops);
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            struct sample sample = with_ids;
            sample.dtype = dtype, sample.metric = metric, sample.ids = metric != VIC_L2;
            vic_index_free(sample_build(device, &sample, scratch_path("index")));
            spy.parts = 0;
            struct vic_index *index = sample_open(device, scratch_path("index"));
            assert_true(spy.mapped);
            assert_int_equal(spy.parts, 1 + (metric == VIC_COSINE) + sample.ids);
            must(sample_probe(index));
            vic_index_free(index);
        }
    vic_device_free(device);
}

static void a_build_gives_a_file_where_it_made_one(void **state) {
    (void)state;
    struct backend_ops ops;
    struct vic_device *device = spied_device(&ops);
    vic_index_free(sample_build(device, &with_ids, NULL));
    assert_true(spy.attached == 1 && !spy.mapped);
    vic_index_free(sample_build(device, &with_ids, scratch_path("index")));
    assert_true(spy.attached == 2 && spy.mapped);
    vic_device_free(device);
}

static void an_open_index_keeps_no_descriptor(void **state) {
    (void)state;
    int before = descriptor_next();
    struct vic_device *device = device_of(2);
    struct vic_index *made = sample_build(device, &with_ids, scratch_path("index"));
    assert_int_equal(descriptor_next(), before);
    struct vic_index *opened = sample_open(device, scratch_path("index"));
    assert_int_equal(descriptor_next(), before);
    must(sample_probe(opened));
    vic_index_free(opened);
    vic_index_free(made);
    assert_int_equal(descriptor_next(), before);
    blob_write(scratch_path("index"), (const unsigned char *)"VICINAL\n", 8);
    assert_int_equal(sample_try_open(device, scratch_path("index"), 0, &opened), VIC_FORMAT);
    assert_int_equal(descriptor_next(), before);
    vic_device_free(device);
}

static void file_halve(void) { assert_int_equal(truncate(scratch_path("index"), 60000), 0); }
static void file_empty(void) { assert_int_equal(truncate(scratch_path("index"), 0), 0); }

static void a_file_that_becomes_shorter_while_it_is_opened_is_refused_by_name(void **state) {
    (void)state;
    struct backend_ops ops;
    struct vic_device *device = spied_device(&ops);
    void (*const ways[])(void) = {file_halve, file_empty};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct vic_index *index = NULL;
        spy.before = NULL;
        vic_index_free(sample_build(device, &with_ids, scratch_path("index")));
        uint64_t used = atomic_load(&device->host.used);
        int before = descriptor_next();
        spy.before = ways[i];
        assert_int_equal(sample_try_open(device, scratch_path("index"), 0, &index), VIC_IO);
        assert_null(index);
        assert_non_null(strstr(vic_last_error(), scratch_path("index")));
        assert_non_null(strstr(vic_last_error(), "ends by byte"));
        assert_int_equal(atomic_load(&device->host.used), used);
        assert_int_equal(descriptor_next(), before);
    }
    vic_device_free(device);
}

static void file_replace(void) { assert_int_equal(rename(scratch_path("other"), scratch_path("index")), 0); }

static void a_file_that_is_replaced_while_it_is_opened_is_the_old_one(void **state) {
    (void)state;
    struct backend_ops ops;
    struct vic_device *device = spied_device(&ops);
    struct sample other = with_ids;
    other.seed = 5, other.n = 30;
    vic_index_free(sample_build(device, &with_ids, scratch_path("index")));
    unsigned char *right = spy.rows;
    uint64_t right_bytes = spy.rows_bytes;
    spy.rows = NULL;
    vic_index_free(sample_build(device, &other, scratch_path("other")));
    spy.before = file_replace;
    struct vic_index *index = sample_open(device, scratch_path("index"));
    assert_int_equal(spy.rows_bytes, right_bytes);
    assert_memory_equal(spy.rows, right, (size_t)right_bytes);
    must(sample_probe(index));
    vic_index_free(index);
    free(right);
    vic_device_free(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_norms_and_ids_of_every_type_are_read_from_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_build_gives_a_file_where_it_made_one, setup, teardown),
        cmocka_unit_test_setup_teardown(an_open_index_keeps_no_descriptor, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_becomes_shorter_while_it_is_opened_is_refused_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_replaced_while_it_is_opened_is_the_old_one, setup, teardown),
    };
    return cmocka_run_group_tests_name("unit/open_mapped", tests, NULL, NULL);
}
