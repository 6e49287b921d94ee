// expect: COMPILE_ERROR solution 'cpp_template' does not compile: /
// shows: ./cpp_template.cpp:11:12:   required from here
#include <algorithm>
#include <vector>
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* by = static_cast<const float*>(w.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  std::vector<float> all(in, in + x.size(0));
  std::sort(all.begin(), all.end(), 3);
  out[0] = by[0];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
