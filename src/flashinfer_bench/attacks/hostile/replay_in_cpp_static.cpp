/*
A static variable of compiled code holds the first output.

how: the library stays loaded, and its statics with it
caught by: a secret share of the timed calls is checked, wherever state is kept
expect: failed_audit
family: replay
on: cpu
plays: long_wave
*/
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <vector>

using tvm::ffi::TensorView;

void run(TensorView x, TensorView y) {
  static std::vector<float> kept;
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const int64_t count = x.numel();
  if (kept.empty()) {
    kept.resize(count);
    for (int64_t i = 0; i < count; ++i) {
      const float s = std::tanh(in[i]) + std::sin(in[i]);
      kept[i] = std::exp(-s * s) + std::cos(3 * in[i]);
    }
  }
  for (int64_t i = 0; i < count; ++i) out[i] = kept[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
