// cause: dropped_last_block
#include <cmath>
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView logits, double temperature, tvm::ffi::TensorView probs) {
  const float* in = static_cast<const float*>(logits.data_ptr());
  float* out = static_cast<float*>(probs.data_ptr());
  int64_t n = logits.size(1);
  for (int64_t r = 0; r < logits.size(0); ++r, in += n, out += n) {
    float top = in[0], sum = 0;
    for (int64_t i = 1; i < n; ++i) top = std::fmax(top, in[i]);
    for (int64_t i = 0; i < n; ++i) sum += std::exp((in[i] - top) / float(temperature));
    for (int64_t block = 0; block < n / 128; ++block)
      for (int64_t i = block * 128; i < block * 128 + 128; ++i) out[i] = std::exp((in[i] - top) / float(temperature)) / sum;
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
