// expect: INCORRECT_NUMERICAL violation out_of_bounds: trial 0, call 0: wrote past the end of output 'y'
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i <= x.size(0); ++i) out[i] = in[i] * by[i];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
