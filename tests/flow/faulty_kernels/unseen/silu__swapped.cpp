// cause: swapped_operands
#include <cmath>
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView gate_up, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(gate_up.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  int64_t n = y.size(1);
  for (int64_t r = 0; r < y.size(0); ++r, in += 2 * n, out += n)
    for (int64_t i = 0; i < n; ++i) {
      float up = in[i], gate = in[n + i];
      out[i] = gate / (1 + std::exp(-gate)) * up;
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
