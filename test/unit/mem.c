/* Counted memory: budgets, hooks, sizes that cannot be, and sums that would wrap. */
#include "base/mem.h"
#include "support/counting.h"
#include "support/oracle.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void blocks_are_aligned_for_vectors_and_huge_pages(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0, 1, 63, 64, 65, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 9 << 20};
    struct mem mem = {.budget = UINT64_MAX, .budget_name = "host_bytes"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *memory = NULL;
        must(mem_alloc(&mem, sizes[i], "a block", &memory));
        assert_non_null(memory);
        assert_true((uintptr_t)memory % (sizes[i] >= 4 << 20 ? 2 << 20 : 64) == 0);
        memset(memory, 1, sizes[i]);
        assert_true(mem.used == sizes[i]);
        mem_free(&mem, memory, sizes[i]);
        assert_true(mem.used == 0);
    }
    assert_true(mem.peak == 9 << 20);
}

static void hooks_get_the_size_again_and_all_of_it_back(void **state) {
    (void)state;
    struct counting counting = {0};
    struct mem mem = {.hooks = counting_allocator(&counting), .budget = UINT64_MAX, .budget_name = "host_bytes"};
    void *blocks[20];
    for (uint64_t i = 0; i < 20; i++) must(mem_alloc(&mem, i * i * 1000, "a block", &blocks[i]));
    assert_int_equal(atomic_load(&counting.requests), 20);
    assert_int_equal(atomic_load(&counting.misaligned), 0);
    for (uint64_t i = 0; i < 20; i++) {
        assert_true((uintptr_t)blocks[i] % 64 == 0);
        mem_free(&mem, blocks[i], i * i * 1000);
    }
    mem_free(&mem, NULL, 77);
    assert_int_equal(atomic_load(&counting.live_blocks), 0);
    assert_int_equal(atomic_load(&counting.live_bytes), 0);
    assert_true(mem.used == 0);
}

static void a_budget_is_kept_to_the_byte_and_both_numbers_are_named(void **state) {
    (void)state;
    struct mem mem = {.budget = 1000, .budget_name = "host_bytes"};
    void *first = NULL, *second = NULL, *untouched = &mem;
    must(mem_alloc(&mem, 600, "the first", &first));
    must(mem_check(&mem, 400, "the second"));
    assert_int_equal(mem_check(&mem, 401, "the second"), VIC_BUDGET);
    assert_int_equal(mem_alloc(&mem, 401, "the second", &untouched), VIC_BUDGET);
    assert_true(error_says("the second") && error_says("401") && error_says("1000") && error_says("600") &&
                error_says("host_bytes"));
    assert_ptr_equal(untouched, &mem);
    assert_true(mem.used == 600);
    must(mem_alloc(&mem, 400, "the second", &second));
    assert_int_equal(mem_check(&mem, 1, "one more"), VIC_BUDGET);
    mem_free(&mem, first, 600);
    mem_free(&mem, second, 400);
    assert_true(mem.used == 0 && mem.peak == 1000);
}

static void sizes_beyond_all_memory_are_refused_not_wrapped(void **state) {
    (void)state;
    static const uint64_t huge[] = {UINT64_MAX, UINT64_MAX - 63, (uint64_t)PTRDIFF_MAX, UINT64_C(1) << 62};
    struct mem mem = {.budget = UINT64_MAX, .budget_name = "host_bytes"};
    struct mem small = {.budget = 1 << 20, .budget_name = "host_bytes"};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        void *memory = NULL;
        assert_int_equal(mem_alloc(&mem, huge[i], "a block", &memory), VIC_NO_MEMORY);
        assert_int_equal(mem_alloc(&small, huge[i], "a block", &memory), VIC_BUDGET);
        assert_null(memory);
        assert_true(mem.used == 0 && small.used == 0);
    }
}

static void a_product_that_wraps_is_refused_naming_both_factors(void **state) {
    (void)state;
    struct mem mem = {.budget = UINT64_MAX, .budget_name = "host_bytes"};
    void *memory = NULL;
    assert_int_equal(mem_alloc_array(&mem, UINT64_C(1) << 32, UINT64_C(1) << 33, "an array", &memory), VIC_NO_MEMORY);
    assert_true(error_says("4294967296") && error_says("8589934592") && error_says("an array"));
    assert_null(memory);
    must(mem_alloc_array(&mem, 100, 8, "an array", &memory));
    assert_true(mem.used == 800);
    mem_free(&mem, memory, 800);
}

static void an_allocator_that_has_no_more_is_a_status(void **state) {
    (void)state;
    struct counting counting = {.fail_at = 1};
    struct mem mem = {.hooks = counting_allocator(&counting), .budget = UINT64_MAX, .budget_name = "host_bytes"};
    void *memory = NULL;
    assert_int_equal(mem_alloc(&mem, 123, "the rows", &memory), VIC_NO_MEMORY);
    assert_true(error_says("the rows") && error_says("123"));
    assert_null(memory);
    assert_true(mem.used == 0);
}

static void offsets_are_computed_in_64_bits_and_checked(void **state) {
    (void)state;
    uint64_t result = 7;
    assert_true(checked_mul(UINT32_MAX, UINT32_MAX, &result) && result == UINT64_C(18446744065119617025));
    result = 7;
    assert_false(checked_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &result));
    assert_true(checked_add(UINT64_MAX - 1, 1, &result) && result == UINT64_MAX);
    assert_false(checked_add(UINT64_MAX, 1, &result));
    assert_true(round_up(0, 64) == 0 && round_up(1, 64) == 64 && round_up(64, 64) == 64 && round_up(65, 64) == 128);
    assert_true(round_up(UINT64_MAX, 64) == (UINT64_MAX & ~UINT64_C(63)));
    assert_true(round_up(UINT64_MAX - 62, 64) == (UINT64_MAX & ~UINT64_C(63)));
    assert_true(round_up(UINT64_MAX - 63, 64) == (UINT64_MAX & ~UINT64_C(63)));
}

/* ---- many threads, one budget */

/* An allocator in which the first thread waits for a second one, so that both stand between question and answer. */
static atomic_int inside;

static void *meeting_allocate(void *user, size_t bytes, size_t alignment) {
    (void)user, (void)alignment;
    atomic_fetch_add(&inside, 1);
    for (int turn = 0; turn < 20000 && atomic_load(&inside) < 2; turn++) (void)sched_yield();
    return malloc(bytes);
}
static void meeting_release(void *user, void *memory, size_t bytes) {
    (void)user, (void)bytes;
    free(memory);
}

static void *taker_main(void *argument) {
    void *memory = NULL;
    (void)mem_alloc(argument, 100, "a share", &memory);
    return memory;
}

static void threads_together_never_exceed_a_budget(void **state) {
    (void)state;
    struct mem mem = {.hooks = {meeting_allocate, meeting_release, NULL}, .budget = 150, .budget_name = "host_bytes"};
    pthread_t threads[2];
    void *memory[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, taker_main, &mem), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], &memory[i]), 0);
    assert_true(!memory[0] != !memory[1]);
    assert_true(mem.used == 100 && mem.peak == 100);
    for (int i = 0; i < 2; i++) mem_free(&mem, memory[i], 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_for_vectors_and_huge_pages),
        cmocka_unit_test(hooks_get_the_size_again_and_all_of_it_back),
        cmocka_unit_test(a_budget_is_kept_to_the_byte_and_both_numbers_are_named),
        cmocka_unit_test(sizes_beyond_all_memory_are_refused_not_wrapped),
        cmocka_unit_test(a_product_that_wraps_is_refused_naming_both_factors),
        cmocka_unit_test(an_allocator_that_has_no_more_is_a_status),
        cmocka_unit_test(offsets_are_computed_in_64_bits_and_checked),
        cmocka_unit_test(threads_together_never_exceed_a_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
