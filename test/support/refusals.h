/* Every request for memory that an operation makes, refused once: it then says VIC_NO_MEMORY with a sentence, keeps no block,
 * counts bytes right, leaves no file in the scratch folder, and succeeds when it is done again. */
#ifndef TEST_REFUSALS_H
#define TEST_REFUSALS_H

#include "vicinal.h"

struct refusable {
    const char *name;
    enum vic_status (*run)(void);
    int64_t least; /* requests that it makes, so that a watch which sees none is noticed */
};

/* Skips the test under a sanitizer, whose allocator is its own. */
void refuse_each(const struct refusable *operations, size_t count);

#endif
