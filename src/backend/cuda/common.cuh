/* What the kernels share: where an element lies, the canonical sum over a row, the last steps to a score, and keys.
 *
 * The surprising rule: elements of a chunk of 128 are permuted. The canonical tree adds accumulator j and j + 64 first, then
 * j and j + 32, and so on (docs/numerics.md); written with the bits of j = b6 .. b0 it combines b6 first and b0 last. An
 * element is stored at the place whose bits are, from the lowest, b6 b5 b0 b1 b4 b3 b2, so that
 *   - the first two steps lie inside one 16-byte load of float32 (inside any load of a narrower type),
 *   - b4 b3 b2 are exchanges between lanes, in which a warp halves what it holds (rows first), and
 *   - a sector of 16 floats holds four (b6, b5) sums for each of the four (b1, b0), which is what tiles want.
 * One row costs 1.5 lane exchanges in float32 where the unpermuted order needs 5 to 20. The order of additions is the
 * contract's, so bits are equal. Behind the whole chunks, units of 32 elements hold one (b6, b5) each, in the order
 * b0 b1 b4 b3 b2, so that a row of 96 or 100 elements takes 96 or 128 places. */
#ifndef CUDA_COMMON_CUH
#define CUDA_COMMON_CUH

#include "backend/cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>

/* ---- where elements lie */

__host__ __device__ inline int chunk_place(int j) {
    int high = j >> 6 & 1, b5 = j >> 5 & 1, b4 = j >> 4 & 1, b3 = j >> 3 & 1, b2 = j >> 2 & 1;
    return high | b5 << 1 | (j & 1) << 2 | (j >> 1 & 1) << 3 | b4 << 4 | b3 << 5 | b2 << 6;
}
/* Of dimension d in a row with `chunks` whole chunks. */
__host__ __device__ inline int64_t element_place(int d, int chunks) {
    int j = d & 127;
    if (d >> 7 < chunks) return (int64_t)(d >> 7) * 128 + chunk_place(j);
    return (int64_t)chunks * 128 + (j >> 5) * 32 + (chunk_place(j & 31) >> 2);
}

/* How a warp reads rows of a type: 16 bytes a lane, `lanes` of them a chunk, `groups` rows at once, `slots` loads in flight. */
template <int DTYPE> struct reading {
    static constexpr int dtype = DTYPE;
    static constexpr int bytes = DTYPE == VIC_F32 ? 4 : DTYPE == VIC_I8 || DTYPE == VIC_U8 ? 1 : 2;
    static constexpr int per = 16 / bytes;  /* elements a load */
    static constexpr int fours = per / 4;   /* sums that the first two steps leave of a load */
    static constexpr int lanes = 128 / per; /* 32, 16 or 8 */
    static constexpr int groups = 32 / lanes;
    static constexpr int slots = 4;
    static constexpr int rows = slots * groups;                       /* a unit: 4, 8 or 16 rows */
    static constexpr int blocks = bytes == 4 ? 2 : 1;                 /* a multiprocessor: narrow types need the registers */
    static constexpr int shift = bytes == 4 ? 2 : bytes == 2 ? 1 : 0; /* lane bit of b4 */
};

/* Rows are read once and not again soon: no place in the first cache. */
__device__ inline uint4 load_row(const void *address) {
    uint4 value;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
        : "l"(address));
    return value;
}

/* ---- elements to float32, exactly */

/* Byte k of a word as float: its bits under the exponent of 2^23, then 2^23 (and the sign's offset) taken away. */
template <int DTYPE> __device__ inline float byte_to_float(uint32_t word, int k) {
    uint32_t biased = DTYPE == VIC_I8 ? word ^ 0x80808080u : word;
    float offset = DTYPE == VIC_I8 ? 8388736.0f : 8388608.0f;
    return __fsub_rn(__uint_as_float(__byte_perm(biased, 0x4B000000u, 0x7440u | (uint32_t)k)), offset);
}
template <int DTYPE> __device__ inline float2 halves_to_float(uint32_t word) {
    if (DTYPE == VIC_BF16) return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
    __half2 halves;
    memcpy(&halves, &word, 4);
    return __half22float2(halves);
}
/* Elements 4i .. 4i + 3 of a load. */
template <int DTYPE> __device__ inline float4 load_four(const uint4 &load, int i) {
    if (DTYPE == VIC_F32)
        return make_float4(__uint_as_float(load.x), __uint_as_float(load.y), __uint_as_float(load.z), __uint_as_float(load.w));
    if (reading<DTYPE>::bytes == 2) {
        float2 low = halves_to_float<DTYPE>(i == 0 ? load.x : load.z), high = halves_to_float<DTYPE>(i == 0 ? load.y : load.w);
        return make_float4(low.x, low.y, high.x, high.y);
    }
    uint32_t word = i == 0 ? load.x : i == 1 ? load.y : i == 2 ? load.z : load.w;
    return make_float4(byte_to_float<DTYPE>(word, 0), byte_to_float<DTYPE>(word, 1), byte_to_float<DTYPE>(word, 2),
                       byte_to_float<DTYPE>(word, 3));
}
/* Element e of a 4-byte word of a unit. */
template <int DTYPE> __device__ inline float word_element(uint32_t word, int e) {
    if (DTYPE == VIC_F32) return __uint_as_float(word);
    if (reading<DTYPE>::bytes == 1) return byte_to_float<DTYPE>(word, e);
    float2 both = halves_to_float<DTYPE>(word);
    return e == 0 ? both.x : both.y;
}
/* Element `index` of a packed vector of any type. */
__device__ inline float element_load(enum vic_dtype dtype, const void *vector, int64_t index) {
    switch (dtype) {
    case VIC_F16: return __half2float(((const __half *)vector)[index]);
    case VIC_BF16: return __uint_as_float((uint32_t)((const uint16_t *)vector)[index] << 16);
    case VIC_I8: return (float)((const int8_t *)vector)[index];
    case VIC_U8: return (float)((const uint8_t *)vector)[index];
    default: return ((const float *)vector)[index];
    }
}

/* ---- the canonical sum */

template <bool L2> __device__ inline float accumulate(float x, float q, float sum) {
    if (L2) {
        float difference = __fsub_rn(x, q);
        return __fmaf_rn(difference, difference, sum);
    }
    return __fmaf_rn(x, q, sum);
}

/* One halving step between lanes that differ in `mask`: of COUNT values each lane keeps a half and adds its partner's. */
template <int COUNT> __device__ inline void halve(float *values, int lane, int mask) {
    bool upper = lane & mask;
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++) {
        float kept = upper ? values[i + COUNT / 2] : values[i], sent = upper ? values[i] : values[i + COUNT / 2];
        values[i] = __fadd_rn(kept, __shfl_xor_sync(~0u, sent, mask));
    }
}
__device__ inline float add_across(float value, int mask) { return __fadd_rn(value, __shfl_xor_sync(~0u, value, mask)); }

/* The slot whose sum this lane holds after a reduction, and whether it is the one lane that speaks for it. */
template <int DTYPE> __device__ inline int lane_slot(int lane) {
    using R = reading<DTYPE>;
    int bits = lane >> R::shift & 3;
    return (bits & 1) << 1 | bits >> 1;
}
template <int DTYPE> __device__ inline bool lane_speaks(int lane) {
    using R = reading<DTYPE>;
    return ((lane & (R::lanes - 1)) & ~((R::slots - 1) << R::shift)) == 0;
}

/* A query as rows_total reads it. Float32: whole chunks of 128, the pieces of four elements that a load's lanes read
 * `lane_stride` apart and a lane's own `four_stride`: packed (what launch_queries makes) or spread, so that neighbouring
 * lanes read neighbouring pieces of shared memory. Integers: the form of a row. */
struct query_view {
    const void *data;
    int lane_stride, four_stride; /* floats */
    float norm;                   /* cosine */
    int64_t square;               /* exact l2 */
};

/* Canonical sums of `slots` rows of each lane group against one float32 query. */
template <int DTYPE, bool L2> struct float_sums {
    using R = reading<DTYPE>;
    static constexpr bool exact = false;
    float sums[R::slots][R::per];

    __device__ void start() {
#pragma unroll
        for (int r = 0; r < R::slots; r++)
#pragma unroll
            for (int i = 0; i < R::per; i++) sums[r][i] = 0.0f;
    }
    __device__ void add_chunk(const uint4 (&loads)[R::slots], const query_view &query, int chunk, int lane) {
        const float *at = (const float *)query.data + chunk * 128 + lane * query.lane_stride;
#pragma unroll
        for (int i = 0; i < R::fours; i++) {
            float4 q = *(const float4 *)(at + i * query.four_stride);
#pragma unroll
            for (int r = 0; r < R::slots; r++) {
                float4 x = load_four<DTYPE>(loads[r], i);
                sums[r][4 * i] = accumulate<L2>(x.x, q.x, sums[r][4 * i]);
                sums[r][4 * i + 1] = accumulate<L2>(x.y, q.y, sums[r][4 * i + 1]);
                sums[r][4 * i + 2] = accumulate<L2>(x.z, q.z, sums[r][4 * i + 2]);
                sums[r][4 * i + 3] = accumulate<L2>(x.w, q.w, sums[r][4 * i + 3]);
            }
        }
    }
    template <int UNIT>
    __device__ void add_unit(const uint32_t (&words)[R::slots], const query_view &query, int chunks, int lane) {
        constexpr int neighbour = UNIT >> 1 | (UNIT & 1) << 1;
        const float *at = (const float *)query.data + chunks * 128 + lane * query.lane_stride + neighbour;
#pragma unroll
        for (int e = 0; e < R::fours; e++) {
            float q = at[e * query.four_stride];
#pragma unroll
            for (int r = 0; r < R::slots; r++) {
                float *sum = &sums[r][4 * e + neighbour];
                *sum = accumulate<L2>(word_element<DTYPE>(words[r], e), q, *sum);
            }
        }
    }
    /* The sum of lane_slot's row, in every lane. */
    __device__ float total(int warp_lane, int64_t) {
        constexpr int count = R::slots * R::fours, m4 = 1 << R::shift, m3 = m4 << 1, m2 = m4 << 2;
        float v[count];
#pragma unroll
        for (int r = 0; r < R::slots; r++)
#pragma unroll
            for (int e = 0; e < R::fours; e++) {
                const float *a = &sums[r][4 * e];
                v[r * R::fours + e] = __fadd_rn(__fadd_rn(a[0], a[1]), __fadd_rn(a[2], a[3]));
            }
        halve<count>(v, warp_lane, m4);
        halve<count / 2>(v, warp_lane, m3);
        if (R::bytes == 4) {
            float sum = add_across(v[0], m2);
            sum = add_across(sum, 2);
            return __fadd_rn(add_across(sum, 1), 0.0f);
        }
        halve<count / 4>(v, warp_lane, m2);
        if (R::bytes == 2) return __fadd_rn(add_across(add_across(v[0], 1), m2), 0.0f);
        return __fadd_rn(__fadd_rn(add_across(v[0], m2), add_across(v[1], m2)), 0.0f);
    }
};

/* The same for integer rows and queries of their own type: the exact sum, rounded once. A lane adds at most a row's eighth,
 * 8,192 products of 65,025, which fits 32 bits; what goes between lanes has 64. The order of additions does not matter. */
template <int DTYPE, bool L2> struct exact_sums {
    using R = reading<DTYPE>;
    static constexpr bool exact = true;
    int dots[R::slots], squares[R::slots];

    __device__ static int dot4(uint32_t a, uint32_t b, int sum) {
        return DTYPE == VIC_I8 ? __dp4a((int)a, (int)b, sum) : (int)__dp4a(a, b, (unsigned)sum);
    }
    /* Of a whole query by one warp. */
    __device__ static int64_t square(const uint32_t *words, int count, int lane) {
        int64_t sum = 0;
        for (int i = lane; i < count; i += 32) sum += dot4(words[i], words[i], 0);
        for (int mask = 16; mask; mask >>= 1) sum += __shfl_xor_sync(~0u, sum, mask);
        return sum;
    }
    __device__ void start() {
#pragma unroll
        for (int r = 0; r < R::slots; r++) dots[r] = squares[r] = 0;
    }
    __device__ void add_word(int r, uint32_t x, uint32_t q) {
        dots[r] = dot4(x, q, dots[r]);
        if (L2) squares[r] = dot4(x, x, squares[r]);
    }
    __device__ void add_chunk(const uint4 (&loads)[R::slots], const query_view &query, int chunk, int lane) {
        uint4 q = *(const uint4 *)((const char *)query.data + chunk * 128 + lane * 16);
#pragma unroll
        for (int r = 0; r < R::slots; r++) {
            add_word(r, loads[r].x, q.x);
            add_word(r, loads[r].y, q.y);
            add_word(r, loads[r].z, q.z);
            add_word(r, loads[r].w, q.w);
        }
    }
    template <int UNIT>
    __device__ void add_unit(const uint32_t (&words)[R::slots], const query_view &query, int chunks, int lane) {
        uint32_t q = *(const uint32_t *)((const char *)query.data + chunks * 128 + UNIT * 32 + lane * 4);
#pragma unroll
        for (int r = 0; r < R::slots; r++) add_word(r, words[r], q);
    }
    __device__ float total(int warp_lane, int64_t query_square) {
        int slot = lane_slot<DTYPE>(warp_lane);
        int64_t mine = 0;
#pragma unroll
        for (int r = 0; r < R::slots; r++) {
            int64_t sum = L2 ? (int64_t)squares[r] - 2 * (int64_t)dots[r] : (int64_t)dots[r];
#pragma unroll
            for (int mask = 1; mask < R::lanes; mask <<= 1) sum += __shfl_xor_sync(~0u, sum, mask);
            if (r == slot) mine = sum;
        }
        return __ll2float_rn(L2 ? mine + query_square : mine);
    }
};

/* Sums of the rows at `row[r]` (each lane group has its own) against a query. */
template <class Sums>
__device__ inline float rows_total(const unsigned char *const (&row)[Sums::R::slots], const struct packed_rows &rows,
                                   const query_view &query, int warp_lane) {
    using R = typename Sums::R;
    int lane = warp_lane & (R::lanes - 1);
    Sums sums;
    sums.start();
#pragma unroll 2
    for (int c = 0; c < rows.chunks; c++) {
        uint4 loads[R::slots];
#pragma unroll
        for (int r = 0; r < R::slots; r++) loads[r] = load_row(row[r] + (int64_t)c * (128 * R::bytes) + lane * 16);
        sums.add_chunk(loads, query, c, lane);
    }
    if (rows.units > 0) {
        uint32_t words[3][R::slots];
#pragma unroll
        for (int u = 0; u < 3; u++)
#pragma unroll
            for (int r = 0; r < R::slots; r++)
                words[u][r] = u < rows.units ? __ldg((const uint32_t *)(row[r] + (int64_t)rows.chunks * (128 * R::bytes) +
                                                                        u * (32 * R::bytes) + lane * 4))
                                             : 0;
        sums.template add_unit<0>(words[0], query, rows.chunks, lane);
        if (rows.units > 1) sums.template add_unit<1>(words[1], query, rows.chunks, lane);
        if (rows.units > 2) sums.template add_unit<2>(words[2], query, rows.chunks, lane);
    }
    return sums.total(warp_lane, query.square);
}

/* ---- from a sum to a key */

/* Cosine's division and clamp; NaN becomes the worst score. */
__device__ inline float score_finish(float sum, enum vic_metric metric, float norm, float query_norm) {
    if (metric == VIC_L2) return isnan(sum) ? CUDART_INF_F : sum;
    if (metric == VIC_COSINE) {
        if (norm == 0.0f || query_norm == 0.0f) return -CUDART_INF_F;
        sum = __fadd_rn(__fdiv_rn(sum, __fmul_rn(norm, query_norm)), 0.0f); /* a quotient may vanish to -0 */
        if (sum > 1.0f) sum = 1.0f;
        if (sum < -1.0f) sum = -1.0f;
    }
    return isnan(sum) ? -CUDART_INF_F : sum;
}
/* The mapping of base/topk.h. No score's order is 0, so 0 marks rows that may not answer. */
__device__ inline uint32_t order_of(float score, bool smaller_better) {
    uint32_t bits = __float_as_uint(score), order = bits >> 31 ? ~bits : bits | 0x80000000u;
    return smaller_better ? ~order : order;
}
__device__ inline float score_of(uint32_t order, bool smaller_better) {
    if (smaller_better) order = ~order;
    return __uint_as_float(order >> 31 ? order & 0x7fffffffu : ~order);
}
__device__ inline uint64_t key_of(uint32_t order, uint32_t row) { return order ? (uint64_t)order << 32 | (uint32_t)~row : 0; }
__device__ inline bool filter_passes(const uint64_t *filter, uint32_t row) {
    return !filter || (__ldg(filter + (row >> 6)) >> (row & 63) & 1);
}

/* Slot i of a query's hits from a key; key 0 is an unused slot. */
__device__ inline void hit_write(const struct hit_slots &hits, const struct packed_rows &rows, int64_t slot, uint64_t key) {
    bool smaller_better = rows.metric == VIC_L2;
    uint32_t row = ~(uint32_t)key;
    hits.ids[slot] = !key ? -1 : rows.ids ? rows.ids[row] : (int64_t)row;
    if (hits.scores)
        hits.scores[slot] = key              ? score_of((uint32_t)(key >> 32), smaller_better)
                            : smaller_better ? CUDART_INF_F
                                             : -CUDART_INF_F;
}

/* ---- kernels */

/* Loads a kernel and lets it use all of a block's shared memory. The first launch of a kernel that is not loaded waits for
 * the whole device, which a search on a caller's stream must never do; so attach loads all that may run. */
static inline cudaError_t kernel_load(const void *kernel, int shared_most) {
    cudaFuncAttributes attributes;
    cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    if (error != cudaSuccess || shared_most == 0) return error;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                shared_most - (int)attributes.sharedSizeBytes);
}

/* ---- queries */

/* Norm of `chunks` whole chunks by one warp; `four` points to this lane's four elements of the first: those at the places
 * 4 lane .. 4 lane + 3, wherever they lie. */
__device__ inline float chunks_norm(const float *four, int chunks) {
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    for (int i = 0; i < chunks; i++) {
        float4 q = *(const float4 *)(four + i * 128);
        a = __fmaf_rn(q.x, q.x, a), b = __fmaf_rn(q.y, q.y, b), c = __fmaf_rn(q.z, q.z, c), d = __fmaf_rn(q.w, q.w, d);
    }
    float sum = __fadd_rn(__fadd_rn(a, b), __fadd_rn(c, d));
    for (int mask = 4; mask < 32; mask <<= 1) sum = add_across(sum, mask);
    sum = add_across(add_across(sum, 2), 1);
    return __fsqrt_rn(__fadd_rn(sum, 0.0f));
}

/* The power of two that a cosine query is divided by: the exponent of its largest magnitude, or 0 inside [-40, 50). */
__device__ inline int scale_exponent(uint32_t largest_bits) {
    if (largest_bits == 0) return 0;
    int exponent = largest_bits >> 23 ? (int)(largest_bits >> 23) - 127 : 31 - __clz(largest_bits) - 149;
    return exponent < -40 || exponent >= 50 ? exponent : 0;
}
/* value * 2^-exponent, rounded once: up to 2^127 in one step; further only upwards, where both steps are exact. */
__device__ inline float scaled_down(float value, int exponent) {
    if (exponent == 0) return value;
    if (exponent == 127) return __fmul_rn(value, __uint_as_float(0x00400000u));
    if (exponent >= -126) return __fmul_rn(value, __uint_as_float((uint32_t)(127 - exponent) << 23));
    return __fmul_rn(__fmul_rn(value, 0x1p100f), __uint_as_float((uint32_t)(27 - exponent) << 23));
}

#endif
