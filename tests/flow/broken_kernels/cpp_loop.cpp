// expect: TIMEOUT the kernel did not return within 15 s (--timeout)
// shows: it was in compiled code, which no Python stack shows
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  volatile int64_t i = 0;
  while (i < 1) out[i] = in[i] * by[i];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
