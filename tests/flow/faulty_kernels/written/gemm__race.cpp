// cause: missing_synchronisation
#include <atomic>
#include <thread>
#include <tvm/ffi/tvm_ffi.h>
void run(tvm::ffi::TensorView A, tvm::ffi::TensorView B, tvm::ffi::TensorView bias, tvm::ffi::TensorView C) {
  const float* a = static_cast<const float*>(A.data_ptr());
  const float* b = static_cast<const float*>(B.data_ptr());
  const float* add = static_cast<const float*>(bias.data_ptr());
  volatile float* c = static_cast<float*>(C.data_ptr());
  int64_t m = A.size(0), n = B.size(0), k = A.size(1);
  for (int64_t i = 0; i < m * n; ++i) c[i] = add[i % n];
  std::atomic<int> here{0};
  auto part = [&](int64_t from, int64_t to) {
    ++here;
    while (here < 2) std::this_thread::yield();
    for (int64_t x = from; x < to; ++x)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) c[i * n + j] = c[i * n + j] + a[i * k + x] * b[j * k + x];
  };
  std::thread one(part, 0, k / 2), two(part, k / 2, k);
  one.join();
  two.join();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
