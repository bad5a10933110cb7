/* A shared object that says it is a backend of another interface: what the loader must not call into. */
#include <stdint.h>

__attribute__((visibility("default"))) extern const uint32_t vicinal_backend_object[8];
const uint32_t vicinal_backend_object[8] = {4000000000u};
