/* Devices for tests, opened or the test ends. */
#include "support/devices.h"
#include "support/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

void must(enum vic_status status) {
    if (status != VIC_OK) fail_msg("%s: %s", vic_status_name(status), vic_last_error());
}

bool error_says(const char *words) { return strstr(vic_last_error(), words) != NULL; }

bool error_says_number(uint64_t number) {
    char words[32];
    (void)snprintf(words, sizeof words, "%llu", (unsigned long long)number);
    return error_says(words);
}

struct vic_device *device_of(int32_t threads) {
    struct vic_device *device = NULL;
    struct vic_device_options options = {.size = sizeof options, .name = getenv("VICINAL_TEST_DEVICE"), .threads = threads};
    if (!options.name) options.name = "cpu";
    must(vic_device_open(&options, &device));
    return device;
}

struct vic_device *device_within(uint64_t host_bytes, int32_t threads, struct counting *counting) {
    struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = threads, .host_bytes = host_bytes};
    struct vic_device *device = NULL;
    if (counting) options.allocator = counting_allocator(counting);
    must(vic_device_open(&options, &device));
    return device;
}

struct vic_device *test_device;

int device_setup(void **state) {
    (void)state;
    test_device = device_of(0);
    return 0;
}

int device_teardown(void **state) {
    (void)state;
    vic_device_free(test_device);
    test_device = NULL;
    return 0;
}

int place_setup(void **state) {
    test_device = device_of(0);
    return scratch_open(state);
}

int place_of_one_setup(void **state) {
    test_device = device_of(1);
    return scratch_open(state);
}

int place_teardown(void **state) {
    (void)device_teardown(state);
    return scratch_close(state);
}
