/* The floating-point environment of an entry point: default inside (round to nearest, no flush to zero, no traps), the
 * caller's again outside.
 *
 * A library built with fast-math sets flush-to-zero for the whole process when it is loaded; without this guard our
 * denormals would vanish and the promise of equal bits with them. On x86 only MXCSR matters (no x87 arithmetic here):
 * a read and a write, a few nanoseconds. Elsewhere <fenv.h>. */
#ifndef BASE_FPENV_H
#define BASE_FPENV_H

#if defined(__x86_64__)
#include <xmmintrin.h>
typedef unsigned fpenv;
static inline fpenv fpenv_enter(void) {
    fpenv caller = _mm_getcsr();
    if ((caller & ~0x3fu) != 0x1f80u) _mm_setcsr(0x1f80u);
    return caller;
}
static inline void fpenv_leave(fpenv caller) {
    if ((caller & ~0x3fu) != 0x1f80u) _mm_setcsr(caller);
}
#else
#include <fenv.h>
typedef fenv_t fpenv;
static inline fpenv fpenv_enter(void) {
    fpenv caller;
    (void)fegetenv(&caller);
    (void)fesetenv(FE_DFL_ENV);
    return caller;
}
static inline void fpenv_leave(fpenv caller) { (void)fesetenv(&caller); }
#endif

#endif
