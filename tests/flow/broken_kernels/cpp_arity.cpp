// expect: COMPILE_ERROR solution 'cpp_arity': cpp_arity.cpp::run takes 2 arguments; it writes into its outputs
// shows: so it is called with (x, w, y)
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  static_cast<float*>(y.data_ptr())[0] = 0;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
