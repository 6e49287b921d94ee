// cause: missing_tail_mask
#include <cmath>
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView gate_up, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(gate_up.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  int64_t n = y.size(1);
  for (int64_t r = 0; r < y.size(0); ++r, in += 2 * n, out += n)
    for (int64_t v = 0; v < n; v += 8) {
      int64_t start = v + 8 <= n ? v : n - 8;
      for (int64_t lane = 0; v + lane < n; ++lane) {
        float gate = in[start + lane], up = in[n + v + lane];
        out[v + lane] = gate / (1 + std::exp(-gate)) * up;
      }
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
