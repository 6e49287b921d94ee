// expect: INCORRECT_NUMERICAL trial 0, call 0: output 'y':
// shows:  of 300 elements differ
// shows: above 1e4  #
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) reinterpret_cast<double*>(out)[i / 2] = in[i] * by[i];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
