// expect: RUNTIME_ERROR its process was ended by SIGSEGV
// shows: in scale(tvm::ffi::TensorView, tvm::ffi::TensorView, tvm::ffi::TensorView)
#include <tvm/ffi/tvm_ffi.h>
void scale(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  volatile float* nowhere = nullptr;
  for (int64_t i = 0; i < x.size(0); ++i) nowhere[i] = in[i] * by[i] + out[i];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, scale);
