// expect: COMPILE_ERROR solution 'cpp_typo' does not compile: ./cpp_typo.cpp:
// shows: ‘ouy’ was not declared in this scope
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  ouy[0] = in[0] * by[0] + out[0];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
