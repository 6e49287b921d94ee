/*
Compiled code with an OpenMP loop.

how: the runtime keeps a team of threads that waits between calls
on: cpu
plays: long_wave
*/
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>

using tvm::ffi::TensorView;

void run(TensorView x, TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const int64_t count = x.numel();
#pragma omp parallel for
  for (int64_t i = 0; i < count; ++i) {
    const float s = std::tanh(in[i]) + std::sin(in[i]);
    out[i] = std::exp(-s * s) + std::cos(3 * in[i]);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
