// expect: COMPILE_ERROR solution 'cpp_link' does not compile: ./cpp_link.cpp:9: undefined reference to `scale(float, float)'
// shows: in function `run(tvm::ffi::TensorView, tvm::ffi::TensorView, tvm::ffi::TensorView)':
#include <tvm/ffi/tvm_ffi.h>
float scale(float, float);
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  out[0] = scale(in[0], by[0]);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
