/* Which kernels are merged: complete, in the order of the list, and as VICINAL_KERNELS says. */
#include "backend/cpu/kernels.h"

#include <stdlib.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static void assert_complete(const struct kernels *merged) {
    for (int dtype = VIC_F32; dtype < DTYPE_COUNT; dtype++) {
        bool integer = dtype_is_integer((enum vic_dtype)dtype);
        for (int op = 0; op < OP_COUNT; op++) {
            assert_non_null(merged->scan[dtype][op]);
            assert_non_null(merged->tile[dtype][op]);
            assert_int_equal(merged->scan_exact[dtype][op] != NULL, integer);
            assert_int_equal(merged->tile_exact[dtype][op] != NULL, integer);
        }
        assert_non_null(merged->to_float[dtype]);
        assert_int_equal(merged->from_float[dtype] != NULL, !integer);
        assert_int_equal(merged->first_not_finite[dtype] != NULL, !integer);
    }
    assert_non_null(merged->cosine);
    assert_non_null(merged->replace_nan);
    assert_non_null(merged->above);
    assert_non_null(merged->largest);
}

static void the_reference_is_first_complete_and_always_available(void **state) {
    (void)state;
    assert_ptr_equal(kernels_list[0], &kernels_scalar);
    assert_true(kernels_scalar.available());
    assert_complete(&kernels_scalar);
}

/* Each slot of a merge up to table `last` comes from the last table up to there that has it. */
static void a_merge_takes_each_slot_from_the_last_table_that_fills_it(void **state) {
    (void)state;
    for (int last = 0; kernels_list[last]; last++) {
        struct kernels merged;
        char name[64];
        if (!kernels_list[last]->available()) {
            assert_int_equal(kernels_merge(kernels_list[last]->name, &merged, name), VIC_UNAVAILABLE);
            continue;
        }
        assert_int_equal(kernels_merge(kernels_list[last]->name, &merged, name), VIC_OK);
        assert_complete(&merged);
        assert_string_equal(merged.name, kernels_list[last]->name);
        struct kernels expected = kernels_scalar;
        for (int t = 1; t <= last; t++) {
            const struct kernels *table = kernels_list[t];
            if (!table->available()) continue;
            if (table->above) expected.above = table->above;
            if (table->cosine) expected.cosine = table->cosine;
            for (int dtype = VIC_F32; dtype < DTYPE_COUNT; dtype++) {
                if (table->to_float[dtype]) expected.to_float[dtype] = table->to_float[dtype];
                for (int op = 0; op < OP_COUNT; op++) {
                    if (table->scan[dtype][op]) expected.scan[dtype][op] = table->scan[dtype][op];
                    if (table->scan_exact[dtype][op]) expected.scan_exact[dtype][op] = table->scan_exact[dtype][op];
                    if (table->tile[dtype][op]) expected.tile[dtype][op] = table->tile[dtype][op];
                    if (table->tile_exact[dtype][op]) expected.tile_exact[dtype][op] = table->tile_exact[dtype][op];
                }
            }
        }
        assert_true(merged.above == expected.above && merged.cosine == expected.cosine);
        assert_memory_equal(merged.to_float, expected.to_float, sizeof merged.to_float);
        assert_memory_equal(merged.scan, expected.scan, sizeof merged.scan);
        assert_memory_equal(merged.scan_exact, expected.scan_exact, sizeof merged.scan_exact);
        assert_memory_equal(merged.tile, expected.tile, sizeof merged.tile);
        assert_memory_equal(merged.tile_exact, expected.tile_exact, sizeof merged.tile_exact);
    }
}

static void the_environment_forces_a_table(void **state) {
    (void)state;
    struct kernels merged, best;
    char name[64], best_name[64];
    assert_int_equal(unsetenv("VICINAL_KERNELS"), 0);
    assert_int_equal(kernels_pick(&best, best_name), VIC_OK);
    assert_complete(&best);
    int last = 0;
    for (int t = 0; kernels_list[t]; t++)
        if (kernels_list[t]->available()) last = t;
    assert_string_equal(best.name, kernels_list[last]->name);
    assert_int_equal(setenv("VICINAL_KERNELS", "", 1), 0); /* empty is unset */
    assert_int_equal(kernels_pick(&merged, name), VIC_OK);
    assert_string_equal(name, best_name);
    assert_int_equal(setenv("VICINAL_KERNELS", "scalar", 1), 0);
    assert_int_equal(kernels_pick(&merged, name), VIC_OK);
    assert_string_equal(name, "scalar");
    assert_ptr_equal(merged.above, kernels_scalar.above);
    assert_memory_equal(merged.scan, kernels_scalar.scan, sizeof merged.scan);
    assert_int_equal(unsetenv("VICINAL_KERNELS"), 0);
}

static void an_unknown_table_is_refused_by_name(void **state) {
    (void)state;
    struct kernels merged = {.name = "as it was"};
    char name[64] = "as it was";
    assert_int_equal(setenv("VICINAL_KERNELS", "mmx", 1), 0);
    assert_int_equal(kernels_pick(&merged, name), VIC_ARGUMENT);
    assert_non_null(strstr(vic_last_error(), "\"mmx\""));
    for (int t = 0; kernels_list[t]; t++) assert_non_null(strstr(vic_last_error(), kernels_list[t]->name));
    assert_string_equal(merged.name, "as it was");
    assert_string_equal(name, "as it was");
    assert_int_equal(unsetenv("VICINAL_KERNELS"), 0);
}

static void an_extension_is_named_after_what_it_extends(void **state) {
    (void)state;
    struct kernels merged;
    char name[64];
    for (int t = 1; kernels_list[t]; t++) {
        if (!kernels_list[t]->available()) continue;
        assert_int_equal(kernels_merge(kernels_list[t]->name, &merged, name), VIC_OK);
        bool extension = strcmp(kernels_list[t]->name, "avx512vnni") == 0;
        assert_string_equal(name, extension ? "avx512+vnni" : kernels_list[t]->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_is_first_complete_and_always_available),
        cmocka_unit_test(a_merge_takes_each_slot_from_the_last_table_that_fills_it),
        cmocka_unit_test(the_environment_forces_a_table),
        cmocka_unit_test(an_unknown_table_is_refused_by_name),
        cmocka_unit_test(an_extension_is_named_after_what_it_extends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
