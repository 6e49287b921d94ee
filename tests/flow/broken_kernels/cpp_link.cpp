// expect: COMPILE_ERROR solution 'cpp_link' does not compile:
// shows: undefined reference to `scale(float, float)'
#include <tvm/ffi/tvm_ffi.h>
float scale(float, float);
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  out[0] = scale(in[0], by[0]);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
