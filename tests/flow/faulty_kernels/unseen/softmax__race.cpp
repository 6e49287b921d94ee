// cause: missing_synchronisation
#include <cmath>
#include <thread>
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView logits, double temperature, tvm::ffi::TensorView probs) {
  const float* in = static_cast<const float*>(logits.data_ptr());
  float* out = static_cast<float*>(probs.data_ptr());
  int64_t n = logits.size(1), rows = logits.size(0);
  for (int64_t r = 0; r < rows; ++r, in += n, out += n) {
    volatile float sum = 0;
    float top = in[0];
    for (int64_t i = 1; i < n; ++i) top = std::fmax(top, in[i]);
    auto part = [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) sum = sum + (out[i] = std::exp((in[i] - top) / float(temperature)));
      for (int64_t i = from; i < to; ++i) out[i] /= sum;
    };
    std::thread one(part, 0, n / 2), two(part, n / 2, n);
    one.join();
    two.join();
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
