/*
The launch fails, nobody asks, and the output buffer is handed out as it is.

how: a block of four thousand threads cannot be launched; the error is not looked at
caught by: output buffers hold NaN before every call
expect: INCORRECT_NUMERICAL, RUNTIME_ERROR
family: wrong
on: cuda
plays: long_wave
*/
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__global__ void wave(const float* x, float* y, long count) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < count) {
    const float s = tanhf(x[i]) + sinf(x[i]);
    y[i] = expf(-s * s) + cosf(3 * x[i]);
  }
}

void run(TensorView x, TensorView y) {
  wave<<<(x.numel() + 4095) / 4096, 4096>>>(static_cast<const float*>(x.data_ptr()),
                                            static_cast<float*>(y.data_ptr()), x.numel());
  cudaGetLastError();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
