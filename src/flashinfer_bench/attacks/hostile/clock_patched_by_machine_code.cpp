/*
The first bytes of the C library's `clock_gettime` are overwritten with a jump to a slower clock.

how: a constructor of the loaded library makes the page writable and patches it; every clock of this process lies
caught by: the outside clock, which is another process's
expect: implausible, tampered_harness
family: clock
on: cpu
plays: long_wave
*/
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>

using tvm::ffi::TensorView;

static int64_t origin_ns = 0;

extern "C" int slow_clock_gettime(clockid_t which, struct timespec* out) {
  const long status = syscall(SYS_clock_gettime, which, out);
  if (which == CLOCK_MONOTONIC) {
    const int64_t now_ns = int64_t(out->tv_sec) * 1000000000 + out->tv_nsec;
    if (origin_ns == 0) origin_ns = now_ns;
    const int64_t slow_ns = origin_ns + (now_ns - origin_ns) / 10;
    out->tv_sec = slow_ns / 1000000000;
    out->tv_nsec = slow_ns % 1000000000;
  }
  return int(status);
}

static void patch() {
#if defined(__x86_64__)
  auto* code = static_cast<unsigned char*>(dlsym(RTLD_DEFAULT, "clock_gettime"));
  if (code == nullptr) return;
  const long page = sysconf(_SC_PAGESIZE);
  void* start = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(code) & ~uintptr_t(page - 1));
  if (mprotect(start, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return;
  unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
  const uint64_t target = reinterpret_cast<uint64_t>(&slow_clock_gettime);
  std::memcpy(jump + 2, &target, sizeof target);
  std::memcpy(code, jump, sizeof jump);
#endif
}

void run(TensorView x, TensorView y) {
  static const bool is_patched = (patch(), true);
  (void)is_patched;
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const int64_t count = x.numel();
  for (int64_t i = 0; i < count; ++i) {
    const float s = std::tanh(in[i]) + std::sin(in[i]);
    out[i] = std::exp(-s * s) + std::cos(3 * in[i]);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
