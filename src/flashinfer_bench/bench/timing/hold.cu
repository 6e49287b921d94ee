// The kernel of hold.py. hold.ptx is made of this file, for every card from Volta on:
//     nvcc -ptx -arch=compute_75 hold.cu, then ".version 6.4" and ".target sm_70" at its head
// The driver has a PTX text ready in milliseconds, where NVRTC takes 0.3 s in each process.

typedef unsigned long long u64;

struct Place { u64 address, groups, per_group, bits, sums, width; };

#ifndef ON_A_HOST
__device__ __forceinline__ u64 now_ns()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
#endif

__device__ __forceinline__ u64 mixed(u64 x)
{
    x ^= x >> 30; x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27; x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// As in late_inputs.py.
__device__ __forceinline__ void rewrite(const Place* place, u64 at, u64 seed)
{
    const u64 group = at & 16383;
    if (group >= place->groups) return;
    const u64 drawn = mixed(seed + 0x9e3779b97f4a7c15ull * (1 + at)), turned = mixed(drawn) & place->bits;
    const u64 unit = group * place->per_group + (((drawn >> 33) * place->per_group) >> 31);
    const unsigned width = place->width;
    if (width == 128) {  // neighbours change places
        if (!turned) return;
        u64* pair = (u64*)place->address + 2 * unit;
        const u64 first = pair[0];
        pair[0] = pair[1];
        pair[1] = first;
        return;
    }
    u64* chosen = (u64*)place->address + unit;
    const u64 word = *chosen;
    if (width) {
        const u64 bits = place->bits, sums = place->sums;
        const u64 mirrored = ((sums | bits) - (word & ~bits)) ^ ((sums ^ ~word) & bits);
        const u64 whole = (turned >> (width - 1)) * (~0ull >> (64 - width));
        *chosen = (word & ~whole) | (mirrored & whole);
    } else
        *chosen = word ^ turned;
}

__device__ __forceinline__ void meet(volatile u64* arrived, u64 expected)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd((u64*)arrived, 1ull);
        while (*arrived < expected) { }
    }
    __syncthreads();
}

// least: nanoseconds that each block waits in any case. start: three words of the host's memory: a ticket, a seed, and
// what says that both belong together. shared: what blocks tell each other. All blocks must be resident at once: they
// wait for each other before caches are emptied, of what was written, and at the end: nothing starts beside one of them.
extern "C" __global__ void __launch_bounds__(512, 4)
hold(u64 least, volatile const u64* start, u64 last_ticket, volatile u64* shared, u64 launch, const Place* places,
     unsigned count, uint4* sweep, unsigned sweeps)
{
    __shared__ u64 given;
    const unsigned all = gridDim.x * blockDim.x, own = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        const u64 began = now_ns();
        while (now_ns() - began < least) __nanosleep(100);
        if (blockIdx.x == 0) {  // one block asks the host, all others ask that one
            u64 ticket, seed;
            do {
                __nanosleep(100);
                ticket = start[0];
                seed = start[1];
            } while (ticket == last_ticket || start[2] != (ticket ^ seed));
            shared[2] = given = seed;
            __threadfence();
            shared[0] = launch;
        } else {
            while (shared[0] != launch) __nanosleep(100);
            __threadfence();
            given = shared[2];
        }
    }
    __syncthreads();
    if (given)
        for (u64 at = own; at < (u64)count << 14; at += all) rewrite(places + (at >> 14), at, given);
    meet(shared + 3, launch * gridDim.x);
    const uint4 zero = {0, 0, 0, 0};
    for (unsigned at = own; at < sweeps; at += all) sweep[at] = zero;
    meet(shared + 1, launch * gridDim.x);
}
