/* What the GPU allows, measured in the run whose results stand beside it: plain reads of memory and of the second cache,
 * the link, and the least that a launch costs the host, alone and with a synchronisation. Prints JSON lines. */
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void must(cudaError_t error) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "CUDA says %s\n", cudaGetErrorString(error));
    exit(1);
}

__global__ static void read_kernel(const uint4 *data, size_t count, uint32_t *out) {
    size_t step = (size_t)gridDim.x * blockDim.x, i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    uint32_t sum = 0;
    for (; i + 3 * step < count; i += 4 * step) {
        uint4 a = __ldcs(data + i), b = __ldcs(data + i + step), c = __ldcs(data + i + 2 * step),
              d = __ldcs(data + i + 3 * step);
        sum ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    if (sum == 0x12345678u) *out = sum;
}
__global__ static void fill_kernel(uint32_t *data, size_t count) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        data[i] = (uint32_t)i * 2654435761u;
}
__global__ static void empty_kernel() {}
struct arguments {
    char bytes[256];
};
__global__ static void given_kernel(arguments) {}

/* `after` is not timed. */
template <class Act, class After> static double median_us(int turns, const Act &act, const After &after) {
    std::vector<double> times;
    for (int i = 0; i < turns + 5; i++) {
        auto began = std::chrono::steady_clock::now();
        act();
        std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
        after();
        if (i >= 5) times.push_back(took.count());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

/* GPU time of one act, by events. */
template <class Act> static double gpu_us(cudaStream_t stream, const Act &act) {
    cudaEvent_t begin, end;
    must(cudaEventCreate(&begin));
    must(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < 15; i++) {
        float ms = 0;
        must(cudaEventRecord(begin, stream));
        act();
        must(cudaEventRecord(end, stream));
        must(cudaEventSynchronize(end));
        must(cudaEventElapsedTime(&ms, begin, end));
        times.push_back(ms * 1e3f);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

static void limit(const char *what, const char *unit, double value) {
    printf("{\"record\": \"limit\", \"what\": \"%s\", \"%s\": %.2f}\n", what, unit, value);
    fflush(stdout);
}

int main() {
    const size_t bytes = (size_t)4 << 30;
    uint4 *data = nullptr;
    uint32_t *out = nullptr;
    void *host = nullptr;
    cudaDeviceProp properties;
    cudaStream_t stream;
    must(cudaGetDeviceProperties(&properties, 0));
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    must(cudaMalloc(&data, bytes));
    must(cudaMalloc(&out, 4));
    must(cudaHostAlloc(&host, (size_t)1 << 30, cudaHostAllocDefault));
    fill_kernel<<<4096, 256, 0, stream>>>((uint32_t *)data, bytes / 4);
    double best = 1e30;
    for (int each : {4, 8, 16, 32})
        best = std::min(best, gpu_us(stream, [&] {
                            read_kernel<<<properties.multiProcessorCount * each, 512, 0, stream>>>(data, bytes / 16, out);
                        }));
    limit("plain read", "gbps", (double)bytes / best / 1e3);
    const size_t cached = (size_t)20 << 20;
    double cache_us = gpu_us(stream, [&] {
        for (int i = 0; i < 20; i++)
            read_kernel<<<properties.multiProcessorCount * 4, 512, 0, stream>>>(data, cached / 16, out);
    });
    limit("plain read of 20 MB, twenty times", "gbps", 20.0 * (double)cached / cache_us / 1e3);
    double up = gpu_us(stream, [&] { must(cudaMemcpyAsync(data, host, (size_t)1 << 30, cudaMemcpyHostToDevice, stream)); });
    limit("PCIe to the device, pinned", "gbps", (double)((size_t)1 << 30) / up / 1e3);
    limit("launch with 256 bytes, the host's time", "us",
          median_us(
              2000, [&] { given_kernel<<<264, 512, 0, stream>>>({}); }, [&] { must(cudaStreamSynchronize(stream)); }));
    limit("launch and synchronise", "us",
          median_us(
              2000,
              [&] {
                  empty_kernel<<<1, 32, 0, stream>>>();
                  must(cudaStreamSynchronize(stream));
              },
              [] {}));
    return 0;
}
