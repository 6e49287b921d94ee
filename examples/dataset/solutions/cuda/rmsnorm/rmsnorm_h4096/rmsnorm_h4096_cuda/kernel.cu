// RMSNorm over rows of 4096 bfloat16: a block reads its row once, eight elements a load, and keeps it in registers
// while the squares are added up.

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

constexpr int kHidden = 4096;
constexpr float kEps = 1e-5f;
constexpr int kThreads = 256;  // any number up to 1024 is right; this one reads two vectors a thread
constexpr int kWarp = 32;
constexpr int kWarps = (kThreads + kWarp - 1) / kWarp;
constexpr int kWidth = 8;  // elements of a 16-byte load
constexpr int kVectors = kHidden / kWidth;
constexpr int kVectorsPerThread = (kVectors + kThreads - 1) / kThreads;

static_assert(kHidden % kWidth == 0, "a row is a whole number of vectors");
static_assert(kThreads <= 1024, "the most threads a block has");

struct alignas(16) Vector {
  __nv_bfloat16 element[kWidth];
};

// The sum over all threads of a block of any size; every thread gets it. Lanes that the last warp lacks take no part.
__device__ float sum_over_block(float value) {
  __shared__ float of_warp[kWarps];
  int lane = threadIdx.x % kWarp;
  int warp = threadIdx.x / kWarp;
  int first = warp * kWarp;
  int lanes = min(kWarp, static_cast<int>(blockDim.x) - first);
  unsigned here = lanes == kWarp ? 0xffffffffu : (1u << lanes) - 1u;
  for (int step = kWarp / 2; step > 0; step /= 2) {
    float other = __shfl_down_sync(here, value, step);
    if (lane + step < lanes) value += other;
  }
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  float total = 0.0f;
  for (int i = 0; i < kWarps; ++i) total += of_warp[i];
  return total;
}

__global__ void __launch_bounds__(kThreads)
    rmsnorm_row(const Vector* __restrict__ x, const Vector* __restrict__ weight,
                Vector* __restrict__ out) {
  x += blockIdx.x * static_cast<int64_t>(kVectors);
  out += blockIdx.x * static_cast<int64_t>(kVectors);
  Vector held[kVectorsPerThread];
  float squares = 0.0f;
#pragma unroll
  for (int part = 0; part < kVectorsPerThread; ++part) {
    int at = part * kThreads + threadIdx.x;
    if (at < kVectors) {
      held[part] = x[at];
      for (int i = 0; i < kWidth; ++i) {
        float value = __bfloat162float(held[part].element[i]);
        squares += value * value;
      }
    }
  }
  float scale = rsqrtf(sum_over_block(squares) / kHidden + kEps);
#pragma unroll
  for (int part = 0; part < kVectorsPerThread; ++part) {
    int at = part * kThreads + threadIdx.x;
    if (at < kVectors) {
      Vector gain = weight[at];
      Vector scaled;
      for (int i = 0; i < kWidth; ++i) {
        float value = __bfloat162float(held[part].element[i]) * scale;
        scaled.element[i] = __float2bfloat16_rn(value * __bfloat162float(gain.element[i]));
      }
      out[at] = scaled;
    }
  }
}

Vector* data_of(TensorView tensor, const char* name) {
  TVM_FFI_CHECK(tensor.device().device_type == kDLCUDA, ValueError) << name << " must be on a GPU";
  DLDataType dtype = tensor.dtype();
  TVM_FFI_CHECK(dtype.code == kDLBfloat && dtype.bits == 16 && dtype.lanes == 1, TypeError)
      << name << " must be bfloat16";
  TVM_FFI_CHECK(tensor.ndim() > 0 && tensor.size(tensor.ndim() - 1) == kHidden, ValueError)
      << name << " must have rows of " << kHidden << ", not the shape " << tensor.shape();
  TVM_FFI_CHECK(tensor.IsContiguous(), ValueError) << name << " must be contiguous";
  char* data = static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset();
  TVM_FFI_CHECK(reinterpret_cast<uintptr_t>(data) % alignof(Vector) == 0, ValueError)
      << name << " must begin at a multiple of " << alignof(Vector) << " bytes";
  return reinterpret_cast<Vector*>(data);
}

void rmsnorm(TensorView hidden_states, TensorView weight, TensorView output) {
  const Vector* x = data_of(hidden_states, "hidden_states");
  const Vector* gain = data_of(weight, "weight");
  Vector* out = data_of(output, "output");
  TVM_FFI_CHECK(hidden_states.ndim() == 2 && output.ndim() == 2 && weight.ndim() == 1, ValueError)
      << "hidden_states and output have two dimensions, weight has one";
  int64_t rows = hidden_states.size(0);
  TVM_FFI_CHECK(output.size(0) == rows, ValueError) << "output must have " << rows << " rows";
  if (rows == 0) return;
  DLDevice device = hidden_states.device();
  auto stream =
      static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  rmsnorm_row<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, gain, out);
  cudaError_t error = cudaGetLastError();
  TVM_FFI_CHECK(error == cudaSuccess, RuntimeError) << cudaGetErrorString(error);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rmsnorm, rmsnorm);
