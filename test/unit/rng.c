/* Philox 4x32-10 against the known answers of its authors' Random123 1.09 (kat_vectors), and that nearby counters, streams
 * and seeds have nothing in common. */
#include "base/rng.h"
#include "support/oracle.h"

#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void known_answers_are_given(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, stream, counter;
        uint32_t words[4];
    } rows[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct philox block = philox_block(rows[i].seed, rows[i].stream, rows[i].counter);
        assert_memory_equal(block.words, rows[i].words, sizeof block.words);
    }
}

/* Every input bit reaches about half of the output bits. */
static void every_bit_of_seed_stream_and_counter_changes_the_block(void **state) {
    (void)state;
    struct philox base = philox_block(1, 2, 3);
    for (int bit = 0; bit < 64; bit++) {
        uint64_t flip = UINT64_C(1) << bit;
        struct philox others[] = {philox_block(1 ^ flip, 2, 3), philox_block(1, 2 ^ flip, 3), philox_block(1, 2, 3 ^ flip)};
        for (int i = 0; i < 3; i++) {
            int changed = 0;
            for (int word = 0; word < 4; word++) changed += __builtin_popcount(others[i].words[word] ^ base.words[word]);
            assert_in_range(changed, 30, 98);
        }
    }
}

static void units_are_above_zero_and_at_most_one(void **state) {
    (void)state;
    assert_true(philox_unit(0) == 0x1p-24f);
    assert_true(philox_unit(UINT32_MAX) == 1.0f);
    assert_true(philox_unit(0x80000000u) == 0.5f + 0x1p-24f);
    double sum = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        struct philox block = philox_block(7, 0, i);
        for (int word = 0; word < 4; word++) {
            float unit = philox_unit(block.words[word]);
            assert_true(unit > 0 && unit <= 1);
            sum += (double)unit;
        }
    }
    assert_true(sum / 40000 > 0.49 && sum / 40000 < 0.51);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers_are_given),
        cmocka_unit_test(every_bit_of_seed_stream_and_counter_changes_the_block),
        cmocka_unit_test(units_are_above_zero_and_at_most_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
