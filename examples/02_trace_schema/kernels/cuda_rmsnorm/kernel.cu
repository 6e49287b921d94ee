// RMSNorm over rows of float16, a row a block: eight elements a load; the second time a row is read it lies in the cache.

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

constexpr int kThreads = 256;  // any number from 1 to 1024 is right
constexpr int kWarp = 32;
constexpr int kWidth = 8;  // elements of a 16-byte load

static_assert(kThreads >= 1 && kThreads <= 1024, "a block has 1 to 1024 threads");

struct alignas(16) Vector {
  __half element[kWidth];
};

// The sum over all threads of a block, whatever their number; every thread gets it. The last warp may lack lanes: they
// are not in its mask, and what would come from them is not added.
__device__ float sum_over_block(float value) {
  __shared__ float of_warp[kWarp];
  int threads = blockDim.x;
  int lane = threadIdx.x % kWarp;
  int warp = threadIdx.x / kWarp;
  int lanes = min(kWarp, threads - warp * kWarp);
  unsigned here = lanes == kWarp ? 0xffffffffu : (1u << lanes) - 1u;
  for (int step = kWarp / 2; step > 0; step /= 2) {
    float other = __shfl_down_sync(here, value, step);
    if (lane + step < lanes) value += other;
  }
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  float total = 0.0f;
  for (int i = 0; i * kWarp < threads; ++i) total += of_warp[i];
  return total;
}

__global__ void rmsnorm_row(const Vector* __restrict__ x, const Vector* __restrict__ weight,
                            float eps, int vectors, Vector* __restrict__ y) {
  x += blockIdx.x * static_cast<int64_t>(vectors);
  y += blockIdx.x * static_cast<int64_t>(vectors);
  float squares = 0.0f;
  for (int at = threadIdx.x; at < vectors; at += blockDim.x) {
    Vector held = x[at];
    for (int i = 0; i < kWidth; ++i) {
      float value = __half2float(held.element[i]);
      squares += value * value;
    }
  }
  float mean = sum_over_block(squares) / (vectors * kWidth);
  float scale = rsqrtf(mean + eps);
  for (int at = threadIdx.x; at < vectors; at += blockDim.x) {
    Vector held = x[at];
    Vector gain = weight[at];
    for (int i = 0; i < kWidth; ++i) {
      float scaled = __half2float(held.element[i]) * scale * __half2float(gain.element[i]);
      held.element[i] = __float2half_rn(scaled);
    }
    y[at] = held;
  }
}

Vector* data_of(TensorView tensor, const char* name) {
  TVM_FFI_CHECK(tensor.device().device_type == kDLCUDA, ValueError) << name << " must be on a GPU";
  DLDataType dtype = tensor.dtype();
  TVM_FFI_CHECK(dtype.code == kDLFloat && dtype.bits == 16 && dtype.lanes == 1, TypeError)
      << name << " must be float16";
  TVM_FFI_CHECK(tensor.IsContiguous(), ValueError) << name << " must be contiguous";
  char* data = static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset();
  TVM_FFI_CHECK(reinterpret_cast<uintptr_t>(data) % alignof(Vector) == 0, ValueError)
      << name << " must begin at a multiple of " << alignof(Vector) << " bytes";
  return reinterpret_cast<Vector*>(data);
}

void rmsnorm(TensorView x, TensorView weight, double eps, TensorView y) {
  TVM_FFI_CHECK(x.ndim() == 2 && y.ndim() == 2 && weight.ndim() == 1, ValueError)
      << "x and y have two dimensions, weight has one";
  int64_t rows = x.size(0), hidden = x.size(1);
  TVM_FFI_CHECK(y.size(0) == rows && y.size(1) == hidden && weight.size(0) == hidden, ValueError)
      << "y must be as large as x, and weight as long as a row of it";
  TVM_FFI_CHECK(hidden % kWidth == 0, ValueError)
      << "rows of " << hidden << " are no whole number of " << kWidth << " elements";
  const Vector* in = data_of(x, "x");
  const Vector* gain = data_of(weight, "weight");
  Vector* out = data_of(y, "y");
  if (rows == 0) return;
  DLDevice device = x.device();
  auto stream =
      static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  rmsnorm_row<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      in, gain, static_cast<float>(eps), static_cast<int>(hidden / kWidth), out);
  cudaError_t error = cudaGetLastError();
  TVM_FFI_CHECK(error == cudaSuccess, RuntimeError) << cudaGetErrorString(error);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rmsnorm, rmsnorm);
