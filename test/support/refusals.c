/* Refusals, one after another. */
#include "support/refusals.h"

#include "base/mem.h"
#include "support/failing.h"
#include "support/oracle.h"
#include "support/scratch.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* Of the test's device, where there is one. */
static uint64_t device_bytes(void) {
    struct vic_device_info info = {.size = sizeof info};
    if (test_device) must(vic_device_info(test_device, &info));
    return info.host_used;
}

static void refuse_all_of(const struct refusable *operation) {
    must(operation->run()); /* what the C library takes once and keeps */
    uint64_t before = device_bytes();
    int64_t n = 1;
    for (;; n++) {
        scratch_clear();
        failing_start(n);
        enum vic_status status = operation->run();
        struct failing_counts counts = failing_stop();
        if (counts.refused == 0) {
            must(status);
            break;
        }
        if (status != VIC_NO_MEMORY || counts.kept != 0 || scratch_count() != 0 || device_bytes() != before)
            fail_msg("%s, request %lld: %s, %lld blocks kept, %lld files", operation->name, (long long)n,
                     vic_status_name(status), (long long)counts.kept, (long long)scratch_count());
        assert_true(vic_last_error()[0] != '\0');
    }
    if (atomic_load(&mem_default.used) != 0) fail_msg("%s gave back another size than it took", operation->name);
    if (n - 1 < operation->least) fail_msg("%s made only %lld requests", operation->name, (long long)(n - 1));
}

void refuse_each(const struct refusable *operations, size_t count) {
    if (!failing_available()) {
        print_message("a sanitizer brings its own allocator: not tested\n");
        skip();
    }
    for (size_t i = 0; i < count; i++) refuse_all_of(&operations[i]);
}
