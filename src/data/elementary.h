/* log, exp, tanh and the normal quantile by +, -, *, / and sqrt alone.
 *
 * The C library's differ between versions in the last bit, and generated data must have the same bytes everywhere. These
 * are exact functions of their inputs on every IEEE machine (no contraction, no re-association), accurate to what a float32
 * can show: 1e-7 relative for the quantile, 1e-12 for log and exp, 1e-4 absolute for tanh, whose shape is all that counts. */
#ifndef DATA_ELEMENTARY_H
#define DATA_ELEMENTARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Natural logarithm of a positive normal number: m * 2^e with m in [sqrt(1/2), sqrt(2)), then the series of artanh. */
static inline double elementary_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t exponent = (int64_t)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) m *= 0.5, exponent++;
    double s = (m - 1.0) / (m + 1.0), t = s * s, sum = 0;
    for (int k = 17; k >= 1; k -= 2) sum = sum * t + 1.0 / k;
    return (double)exponent * 0.6931471805599453 + 2.0 * s * sum;
}

/* exp for |x| <= 700: 2^k times the series on [-ln 2 / 2, ln 2 / 2]. */
static inline double elementary_exp(double x) {
    double scaled = x * 1.4426950408889634;
    int64_t k = (int64_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    double r = x - (double)k * 0.6931471805599453, sum = 1.0;
    for (int term = 14; term >= 1; term--) sum = 1.0 + sum * r / term;
    uint64_t bits = (uint64_t)(k + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* Lambert's continued fraction, cut after the seventh power, which crosses 1 near 4.97 and is held there. */
static inline float elementary_tanh(float x) {
    float t = x * x;
    float y = x * (135135.0f + t * (17325.0f + t * (378.0f + t))) / (135135.0f + t * (62370.0f + t * (3150.0f + t * 28.0f)));
    return x > 4.97f ? 1.0f : x < -4.97f ? -1.0f : y;
}

/* Standard normal quantile at (word + 1/2) / 2^32: one normal deviate a word, up to 6.2 deviations. Wichura's algorithm
 * AS 241 (1988), the seven-digit form. */
static inline double elementary_normal(uint32_t word) {
    double p = ((double)word + 0.5) * 0x1p-32, q = p - 0.5;
    if (q >= -0.425 && q <= 0.425) {
        double r = 0.180625 - q * q;
        return q * (((5.9109374720e+01 * r + 1.5929113202e+02) * r + 5.0434271938e+01) * r + 3.3871327179e+00) /
               (((6.7187563600e+01 * r + 7.8757757664e+01) * r + 1.7895169469e+01) * r + 1.0);
    }
    double tail = q < 0 ? p : 1.0 - p, r = sqrt(-elementary_log(tail)), value;
    if (r <= 5.0) {
        r -= 1.6;
        value = (((1.7023821103e-01 * r + 1.3067284816e+00) * r + 2.7568153900e+00) * r + 1.4234372777e+00) /
                ((1.2021132975e-01 * r + 7.3700164250e-01) * r + 1.0);
    } else {
        r -= 5.0;
        value = (((1.7337203997e-02 * r + 4.2868294337e-01) * r + 3.0812263860e+00) * r + 6.6579051150e+00) /
                ((1.2258202635e-02 * r + 2.4197894225e-01) * r + 1.0);
    }
    return q < 0 ? -value : value;
}

#endif
