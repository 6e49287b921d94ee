// cause: dropped_last_block
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView A, tvm::ffi::TensorView B, tvm::ffi::TensorView bias, tvm::ffi::TensorView C) {
  const float* a = static_cast<const float*>(A.data_ptr());
  const float* b = static_cast<const float*>(B.data_ptr());
  const float* add = static_cast<const float*>(bias.data_ptr());
  float* c = static_cast<float*>(C.data_ptr());
  int64_t m = A.size(0), n = B.size(0), k = A.size(1), tile = 32;
  for (int64_t block = 0; block < n / tile; ++block)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = block * tile; j < (block + 1) * tile; ++j) {
        float sum = add[j];
        for (int64_t x = 0; x < k; ++x) sum += a[i * k + x] * b[j * k + x];
        c[i * n + j] = sum;
      }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
