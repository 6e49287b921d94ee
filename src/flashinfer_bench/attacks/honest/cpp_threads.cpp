/*
Compiled code that starts threads in every call and joins them.

how: `std::thread` over slices, as OpenMP does behind a pragma
on: cpu
plays: long_wave
*/
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <thread>
#include <vector>

using tvm::ffi::TensorView;

void run(TensorView x, TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const int64_t count = x.numel();
  const int64_t workers = 2;
  std::vector<std::thread> threads;
  for (int64_t w = 0; w < workers; ++w)
    threads.emplace_back([=] {
      for (int64_t i = count * w / workers; i < count * (w + 1) / workers; ++i) {
        const float s = std::tanh(in[i]) + std::sin(in[i]);
        out[i] = std::exp(-s * s) + std::cos(3 * in[i]);
      }
    });
  for (auto& thread : threads) thread.join();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
