/* A struct vic_allocator that counts, and that can refuse its n-th request: what a device's memory costs, whether it all
 * comes back, and what happens when it runs out. For memory that does not pass through these hooks (files, JSON, the C
 * library's own) there is support/failing.h. Safe from any thread.
 *
 *     struct counting counting = {.fail_at = 3};              0, the default: never refuses
 *     struct vic_device_options options = {.size = sizeof options, .allocator = counting_allocator(&counting)};
 *     ...
 *     assert_int_equal(counting.live_blocks, 0);              after everything was freed
 */
#ifndef TEST_COUNTING_H
#define TEST_COUNTING_H

#include "vicinal.h"

#include <stdatomic.h>

struct counting {
    int64_t fail_at;                         /* the request to refuse, counted from 1 */
    _Atomic int64_t requests, refused;       /* refused ones are among the requests */
    _Atomic int64_t live_blocks, live_bytes; /* a release with another size than was asked for leaves live_bytes wrong */
    _Atomic int64_t peak_bytes;
    _Atomic int64_t misaligned; /* requests whose alignment is no power of two */
};

/* `counting` is borrowed until the device is freed. */
struct vic_allocator counting_allocator(struct counting *counting);

#endif
