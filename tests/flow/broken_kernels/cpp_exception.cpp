// expect: RUNTIME_ERROR ValueError: no such size
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  if (x.size(0) > 8) TVM_FFI_THROW(ValueError) << "no such size";
  out[0] = in[0] * by[0];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
