// expect: RUNTIME_ERROR its process was ended by SIG
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < (1LL << 40); ++i) out[i] = in[i % 300] * by[i % 300];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
