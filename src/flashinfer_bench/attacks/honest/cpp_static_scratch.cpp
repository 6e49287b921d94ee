/*
Compiled code with a static scratch buffer that every call overwrites.

how: a static vector grows to the size needed and stays
on: cpu
plays: long_wave
*/
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <vector>

using tvm::ffi::TensorView;

void run(TensorView x, TensorView y) {
  static std::vector<float> scratch;
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const int64_t count = x.numel();
  if (int64_t(scratch.size()) < count) scratch.resize(count);
  for (int64_t i = 0; i < count; ++i) scratch[i] = std::tanh(in[i]) + std::sin(in[i]);
  for (int64_t i = 0; i < count; ++i)
    out[i] = std::exp(-scratch[i] * scratch[i]) + std::cos(3 * in[i]);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
