// Reads hold.cu with a C++ compiler: each block is a thread of the host.
#include <thread>
#include <time.h>
#include <vector>
#define ON_A_HOST
typedef unsigned long long u64;
struct Index { unsigned x; };
struct uint4 { unsigned x, y, z, w; };
static const Index threadIdx = {0}, blockDim = {1};
static Index gridDim;
static thread_local Index blockIdx;
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads, blocks)
#define __shared__ static thread_local
static inline void __nanosleep(unsigned) { std::this_thread::yield(); }
static inline void __threadfence() { __sync_synchronize(); }
static inline void __syncthreads() {}
static inline u64 now_ns()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}
static inline void atomicAdd(u64* at, u64 more) { __sync_fetch_and_add(at, more); }
#include SOURCE

extern "C" void run_blocks(unsigned blocks, u64 least, const u64* start, u64 last_ticket, u64* shared, u64 launch,
                           const Place* places, unsigned count, uint4* sweep, unsigned sweeps)
{
    gridDim.x = blocks;
    std::vector<std::thread> all;
    for (unsigned block = 0; block < blocks; ++block)
        all.emplace_back([=] {
            blockIdx.x = block;
            hold(least, start, last_ticket, shared, launch, places, count, sweep, sweeps);
        });
    for (auto& each : all) each.join();
}
