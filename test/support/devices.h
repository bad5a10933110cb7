/* What tests stand on: devices, the one that a program's tests share, and the library's last sentence. */
#ifndef TEST_DEVICES_H
#define TEST_DEVICES_H

#include "support/counting.h"
#include "vicinal.h"

#include <stdbool.h>

/* Ends the test with the library's sentence unless the status is VIC_OK. */
void must(enum vic_status status);
/* Whether the last sentence holds these words, or this number. */
bool error_says(const char *words);
bool error_says_number(uint64_t number);

/* A device of `threads` threads (0: all cores): the CPU, unless VICINAL_TEST_DEVICE names another. */
struct vic_device *device_of(int32_t threads);
/* A CPU device whose memory has a limit (0: none) and, unless NULL, is counted. */
struct vic_device *device_within(uint64_t host_bytes, int32_t threads, struct counting *counting);

/* The device that the tests of a program share, between set-up and tear-down of their group: */
extern struct vic_device *test_device;
/* of all cores; */
int device_setup(void **state);
int device_teardown(void **state);
/* of all cores, with the scratch folder; or of one thread, which is a quarter of the work where thousands of small files are
 * opened and asked. */
int place_setup(void **state);
int place_of_one_setup(void **state);
int place_teardown(void **state);

#endif
