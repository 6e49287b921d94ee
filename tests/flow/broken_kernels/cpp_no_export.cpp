// expect: USAGE the file exports no function; add
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  out[0] = in[0] * by[0];
}
