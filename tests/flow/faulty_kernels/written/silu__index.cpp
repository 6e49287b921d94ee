// cause: index_overflow
#include <cmath>
#include <cstdint>
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView gate_up, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(gate_up.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  int64_t n = y.size(1);
  for (int64_t i = 0; i < y.size(0) * n; ++i) {
    float gate = in[i / n * 2 * n + i % n], up = in[i / n * 2 * n + n + i % n];
    uint16_t place = static_cast<uint16_t>(i);
    out[place] = gate / (1 + std::exp(-gate)) * up;
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
