#include <cuda_runtime.h>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__global__ void gelu_kernel(const float* x, const float* scale, float* out, int64_t columns, int64_t count) {
  const int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (at >= count) return;
  const float value = x[at];
  const float inner = 0.79788456f * (value + 0.044715f * value * value * value);
  out[at] = 0.5f * value * (1.0f + tanhf(inner)) * scale[at % columns];
}

void gelu(TensorView x, TensorView scale, TensorView output) {
  const int64_t count = x.numel();
  const DLDevice device = x.device();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  if (count == 0) return;
  gelu_kernel<<<(count + 255) / 256, 256, 0, stream>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<const float*>(scale.data_ptr()),
      static_cast<float*>(output.data_ptr()), x.size(1), count);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gelu, gelu);
