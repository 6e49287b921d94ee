// cause: uninitialised_memory
#include <cmath>
#include <cstdlib>
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView logits, double temperature, tvm::ffi::TensorView probs) {
  const float* in = static_cast<const float*>(logits.data_ptr());
  float* out = static_cast<float*>(probs.data_ptr());
  int64_t n = logits.size(1);
  float* sums = static_cast<float*>(std::malloc(logits.size(0) * 64 * sizeof(float)));
  for (int64_t r = 0; r < logits.size(0); ++r, in += n, out += n) {
    float top = in[0];
    for (int64_t i = 1; i < n; ++i) top = std::fmax(top, in[i]);
    float* sum = sums + r * 64;
    for (int64_t i = 0; i < n; ++i) sum[i % 64] += std::exp((in[i] - top) / float(temperature));
    for (int lane = 1; lane < 64; ++lane) sum[0] += sum[lane];
    for (int64_t i = 0; i < n; ++i) out[i] = std::exp((in[i] - top) / float(temperature)) / sum[0];
  }
  std::free(sums);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
