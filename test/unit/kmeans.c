/* k-means: nearest means nearest, every centre is the mean of its points, what happens to empty centres and copies, and the
 * same bytes whoever works on it. */
#include "quant/kmeans.h"
#include "quant/nearest.h"
#include "support/counting.h"
#include "support/oracle.h"
#include "support/scene.h"

#include "backend/backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

struct problem {
    float *points;
    int64_t n, dim, centres, rounds;
};

static const struct column_kernels *kernels_of(struct vic_device *device) {
    return device->host_ops->columns(device->host_backend);
}

/* Centres found, into fresh memory. */
static float *solve(struct vic_device *device, const struct problem *problem, int64_t *count) {
    const struct kmeans task = {.points = problem->points,
                                .n = problem->n,
                                .dim = problem->dim,
                                .stride = problem->dim,
                                .centres = problem->centres,
                                .rounds = problem->rounds,
                                .seed = 5};
    float *found = take((size_t)(problem->centres * problem->dim) * sizeof *found);
    memset(found, 0xAA, (size_t)(problem->centres * problem->dim) * sizeof *found);
    must(kmeans_run(&task, kernels_of(device), device->host_ops->pool(device->host_backend), &device->host, found, count));
    assert_in_range(*count, 0, problem->centres);
    return found;
}

static double apart(const float *a, const float *b, int64_t dim) {
    double sum = 0;
    for (int64_t d = 0; d < dim; d++) sum += ((double)a[d] - (double)b[d]) * ((double)a[d] - (double)b[d]);
    return sum;
}

static int64_t oracle_nearest(const float *centres, int64_t count, int64_t dim, const float *point) {
    int64_t nearest = 0;
    for (int64_t c = 1; c < count; c++)
        if (apart(point, centres + c * dim, dim) < apart(point, centres + nearest * dim, dim)) nearest = c;
    return nearest;
}

static double error_of(const struct problem *problem, const float *centres, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < problem->n; i++) {
        const float *point = problem->points + i * problem->dim;
        sum += apart(point, centres + oracle_nearest(centres, count, problem->dim, point) * problem->dim, problem->dim);
    }
    return sum;
}

static struct problem problem_random(uint64_t seed, enum values values, int64_t n, int64_t dim, int64_t centres) {
    struct random random = {seed};
    struct problem problem = {take((size_t)(n * dim + 1) * sizeof(float)), n, dim, centres, 20};
    random_fill(&random, values, VIC_F32, n * dim, problem.points);
    return problem;
}

/* ---- nearest */

/* Centres and points on a coarse grid meet in ties by the thousand; wild ones overflow and vanish in float32. */
static void nearest_is_the_oracles_whatever_the_values(void **state) {
    (void)state;
    static const int64_t dims[] = {1, 2, 8, 40};
    struct random random = {41};
    const char *const *tables = kernels_here();
    for (int t = 0; tables[t]; t++) {
        struct vic_device *device = device_with(tables[t], 1);
        for (int d = 0; d < 4; d++)
            for (int values = 0; values < VALUES_COUNT; values++)
                for (int64_t count = 1; count <= 272; count = count * 2 + 3) {
                    enum { POINTS = 150 };
                    int64_t dim = dims[d], stride = (count + 15) / 16 * 16;
                    float *rows = take((size_t)(count * dim) * sizeof(float)),
                          *points = take(POINTS * (size_t)dim * sizeof(float));
                    float *columns = calloc((size_t)(stride * dim), sizeof(float)),
                          *halves = take((size_t)stride * sizeof(float));
                    int32_t nearest[POINTS];
                    random_fill(&random, (enum values)values, VIC_F32, count * dim, rows);
                    random_fill(&random, (enum values)values, VIC_F32, POINTS * dim, points);
                    for (int64_t c = 0; c < count; c++)
                        for (int64_t e = 0; e < dim; e++) columns[e * stride + c] = rows[c * dim + e];
                    struct centres centres = {
                        .columns = {columns, dim, count, stride}, .halves = halves, .kernels = kernels_of(device)};
                    centres_measure(&centres);
                    centres_nearest(&centres, points, dim, POINTS, nearest);
                    for (int64_t i = 0; i < POINTS; i++)
                        assert_int_equal(nearest[i], oracle_nearest(rows, count, dim, points + i * dim));
                    free(halves), free(columns), free(points), free(rows);
                }
        vic_device_free(device);
    }
}

/* ---- k-means */

static void centres_are_the_means_of_their_points(void **state) {
    (void)state;
    struct problem problem = problem_random(42, VALUES_UNIT, 600, 3, 7);
    int64_t count = 0;
    problem.rounds = 1000; /* to the end */
    float *centres = solve(test_device, &problem, &count);
    assert_int_equal(count, 7);
    for (int64_t c = 0; c < count; c++) {
        double sums[3] = {0}, points = 0;
        for (int64_t i = 0; i < problem.n; i++) {
            if (oracle_nearest(centres, count, 3, problem.points + i * 3) != c) continue;
            for (int d = 0; d < 3; d++) sums[d] += (double)problem.points[i * 3 + d];
            points++;
        }
        assert_true(points > 0);
        for (int d = 0; d < 3; d++) {
            float mean = (float)(sums[d] / points);
            assert_memory_equal(&centres[c * 3 + d], &mean, sizeof mean);
        }
    }
    free(centres), free(problem.points);
}

static void more_rounds_and_more_centres_lose_less(void **state) {
    (void)state;
    struct problem problem = problem_random(43, VALUES_UNIT, 3000, 6, 32);
    int64_t count = 0;
    double before = INFINITY;
    for (problem.rounds = 1; problem.rounds <= 16; problem.rounds *= 4) {
        float *centres = solve(test_device, &problem, &count);
        double error = error_of(&problem, centres, count);
        assert_true(error < before);
        before = error;
        free(centres);
    }
    problem.centres = 64;
    float *centres = solve(test_device, &problem, &count);
    assert_true(error_of(&problem, centres, count) < before);
    free(centres), free(problem.points);
}

static void distinct_points_up_to_the_centres_are_all_found(void **state) {
    (void)state;
    for (int64_t distinct = 1; distinct <= 40; distinct += distinct < 4 ? 1 : 12) {
        struct problem some = problem_random(44, VALUES_UNIT, distinct, 5, 40);
        struct problem all = {take(500 * 5 * sizeof(float)), 500, 5, 40, 6};
        int64_t count = 0;
        for (int64_t i = 0; i < all.n; i++) memcpy(all.points + i * 5, some.points + i * i % distinct * 5, 5 * sizeof(float));
        for (int64_t i = 0; i < distinct; i++) memcpy(all.points + i * 5, some.points + i * 5, 5 * sizeof(float));
        float *centres = solve(test_device, &all, &count);
        assert_int_equal(count, distinct);
        assert_true(error_of(&all, centres, count) == 0);
        free(centres), free(all.points), free(some.points);
    }
}

/* Far more points than seeds are drawn from, and a few that no seed can be: the empty centres must find them. */
static void centres_without_points_take_the_farthest(void **state) {
    (void)state;
    struct problem problem = {take(40000 * 2 * sizeof(float)), 40000, 2, 6, 8};
    int64_t count = 0;
    memset(problem.points, 0, 40000 * 2 * sizeof(float));
    for (int64_t rare = 1; rare <= 5; rare++) problem.points[(rare * 7001 + 3) * 2] = (float)rare * 10;
    float *centres = solve(test_device, &problem, &count);
    assert_int_equal(count, 6);
    assert_true(error_of(&problem, centres, count) == 0);
    free(centres), free(problem.points);
}

static void the_smallest_problems_work(void **state) {
    (void)state;
    for (int64_t n = 0; n <= 3; n++)
        for (int64_t dim = 1; dim <= 3; dim++)
            for (int64_t centres = 1; centres <= 5; centres++) {
                struct problem problem = problem_random(45, VALUES_UNIT, n, dim, centres);
                int64_t count = -1;
                float *found = solve(test_device, &problem, &count);
                assert_int_equal(count, n < centres ? n : centres);
                free(found), free(problem.points);
            }
}

static void huge_and_tiny_points_have_finite_centres(void **state) {
    (void)state;
    struct problem problem = problem_random(46, VALUES_WILD, 400, 4, 20);
    int64_t count = 0;
    float *centres = solve(test_device, &problem, &count);
    assert_int_equal(count, 20);
    for (int64_t i = 0; i < count * 4; i++) assert_true(isfinite(centres[i]));
    free(centres), free(problem.points);
}

static void threads_and_processors_give_the_same_bytes(void **state) {
    (void)state;
    static const int32_t threads[] = {1, 2, 3, 16};
    struct problem problem = problem_random(47, VALUES_UNIT, 5000, 9, 100);
    const char *const *tables = kernels_here();
    int64_t count = 0;
    float *first = solve(test_device, &problem, &count);
    for (int table = 0; tables[table]; table++)
        for (int t = 0; t < 4; t++) {
            struct vic_device *device = device_with(tables[table], threads[t]);
            int64_t again = 0;
            float *centres = solve(device, &problem, &again);
            assert_int_equal(again, count);
            assert_memory_equal(centres, first, (size_t)(count * 9) * sizeof *first);
            free(centres);
            vic_device_free(device);
        }
    free(first), free(problem.points);
}

static int stop(void *user, const struct vic_progress_state *state) {
    (void)user, (void)state;
    return 1;
}

static void a_failed_run_gives_its_memory_back(void **state) {
    (void)state;
    struct counting counting = {0};
    struct mem mem = {.hooks = counting_allocator(&counting), .budget = UINT64_MAX, .budget_name = "test"};
    struct problem problem = problem_random(48, VALUES_UNIT, 500, 4, 10);
    float found[40];
    int64_t count = 0;
    const struct vic_progress hook = {stop, NULL};
    struct progress progress = progress_start(&hook, "training", 12); /* the second round's step, which is reported always */
    struct kmeans task = {.points = problem.points,
                          .n = 500,
                          .dim = 4,
                          .stride = 4,
                          .centres = 10,
                          .rounds = 50,
                          .progress = &progress,
                          .progress_base = 11};
    assert_int_equal(kmeans_run(&task, kernels_of(test_device), NULL, &mem, found, &count), VIC_CANCELLED);
    assert_non_null(strstr(vic_last_error(), "training, at 12 of 12"));
    assert_int_equal(counting.requests, 1);
    assert_int_equal(counting.live_blocks, 0);
    counting = (struct counting){.fail_at = 1};
    assert_int_equal(kmeans_run(&task, kernels_of(test_device), NULL, &mem, found, &count), VIC_NO_MEMORY);
    assert_int_equal(counting.live_blocks, 0);
    mem.budget = kmeans_bytes(500, 4, 10) - 1;
    assert_int_equal(kmeans_run(&task, kernels_of(test_device), NULL, &mem, found, &count), VIC_BUDGET);
    free(problem.points);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_is_the_oracles_whatever_the_values),
        cmocka_unit_test(centres_are_the_means_of_their_points),
        cmocka_unit_test(more_rounds_and_more_centres_lose_less),
        cmocka_unit_test(distinct_points_up_to_the_centres_are_all_found),
        cmocka_unit_test(centres_without_points_take_the_farthest),
        cmocka_unit_test(the_smallest_problems_work),
        cmocka_unit_test(huge_and_tiny_points_have_finite_centres),
        cmocka_unit_test(threads_and_processors_give_the_same_bytes),
        cmocka_unit_test(a_failed_run_gives_its_memory_back),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
