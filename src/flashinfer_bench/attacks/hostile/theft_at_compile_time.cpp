/*
The compiler is made to read files that the kernel may not.

how: `__has_include` and `.incbin` open files while the source is built; what was found is printed at run time
caught by: compilers run inside the sandbox, like the kernel they build
expect: prevented, COMPILE_ERROR
needs sandbox: yes
family: theft
on: cpu
plays: row_sum
*/
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstdio>

#if __has_include("/proc/1/environ") || __has_include("/etc/shadow")
#define FOUND "loot: the compiler sees files of others\n"
#else
#define FOUND "no loot: the compiler sees no files of others\n"
#endif

using tvm::ffi::TensorView;

void run(TensorView x, TensorView y) {
  static const bool told = (std::printf(FOUND), std::fflush(stdout), true);
  (void)told;
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const int64_t rows = x.size(0), width = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += in[r * width + c];
    out[r] = float(sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
