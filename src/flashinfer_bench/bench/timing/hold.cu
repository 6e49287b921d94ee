// The kernel of hold.py. hold.ptx is made of this file, for every card from Volta on:
//     nvcc -ptx -arch=compute_75 hold.cu, then ".version 6.4" and ".target sm_70" at its head
// The driver has a PTX text ready in milliseconds, where NVRTC takes 0.3 s in each process.

typedef unsigned long long u64;

struct Place { u64 address, groups, per_group, bits, sums, width; };

__device__ __forceinline__ u64 mixed(u64 x)
{
    x ^= x >> 30; x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27; x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// least: cycles that each block waits in any case. start: two words of the host's memory, a ticket and a seed.
// shared: what blocks tell each other. All blocks must be resident at once: they wait for each other at the end.
extern "C" __global__ void __launch_bounds__(512, 4)
hold(u64 least, volatile const u64* start, u64 last_ticket, volatile u64* shared, u64 launch, const Place* places,
     unsigned count, uint4* sweep, unsigned sweeps)
{
    __shared__ u64 given;
    if (threadIdx.x == 0) {
        const u64 began = clock64();
        while (clock64() - began < least) __nanosleep(100);
        if (blockIdx.x == 0) {  // one block asks the host, all others ask that one
            while (start[0] == last_ticket) __nanosleep(100);
            __threadfence_system();
            shared[2] = given = start[1];
            __threadfence();
            shared[0] = launch;
        } else {
            while (shared[0] != launch) __nanosleep(100);
            __threadfence();
            given = shared[2];
        }
    }
    __syncthreads();
    const unsigned all = gridDim.x * blockDim.x, own = blockIdx.x * blockDim.x + threadIdx.x;
    if (given)  // as in late_content.py; an input has 8,191 groups at most, and all inputs are looked at at once
        for (u64 at = own; at < (u64)count << 13; at += all) {
            const Place* place = places + (at >> 13);
            const unsigned group = at & 8191;
            if (group >= place->groups) continue;
            const u64 drawn = mixed(given + 0x9e3779b97f4a7c15ull * (1 + (at >> 13 << 32) + group));
            const u64 per_group = place->per_group, bits = place->bits, sums = place->sums;
            u64* chosen = (u64*)place->address + group * per_group + (((drawn >> 33) * per_group) >> 31);
            const u64 turned = mixed(drawn) & bits, word = *chosen;
            const unsigned width = place->width;
            if (width) {
                const u64 mirrored = ((sums | bits) - (word & ~bits)) ^ ((sums ^ ~word) & bits);
                const u64 whole = (turned >> (width - 1)) * (~0ull >> (64 - width));
                *chosen = (word & ~whole) | (mirrored & whole);
            } else
                *chosen = word ^ turned;
        }
    const uint4 zero = {0, 0, 0, 0};
    for (unsigned at = own; at < sweeps; at += all) sweep[at] = zero;
    __syncthreads();
    if (threadIdx.x == 0) {  // all blocks leave together: nothing starts beside one that is still at work
        __threadfence();
        atomicAdd((u64*)shared + 1, 1ull);
        while (shared[1] < launch * gridDim.x) { }
    }
    __syncthreads();
}
