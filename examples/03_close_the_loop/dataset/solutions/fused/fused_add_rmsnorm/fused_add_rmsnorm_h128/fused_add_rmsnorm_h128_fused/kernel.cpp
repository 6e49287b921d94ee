// x + residual and its RMSNorm over rows of 128 floats: both inputs are read once.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kHidden = 128;
constexpr int kLanes = 32;  // partial sums that do not wait for each other


// The first element of a contiguous float tensor of this shape on the CPU; anything else is refused by name.
float* data_of(TensorView tensor, const char* name, std::initializer_list<int64_t> shape) {
  DLDataType dtype = tensor.dtype();
  TVM_FFI_CHECK(tensor.device().device_type == kDLCPU && dtype.code == kDLFloat && dtype.bits == 32 &&
                    tensor.IsContiguous(),
                TypeError)
      << name << " must be float32, contiguous and on the CPU";
  bool fits = tensor.ndim() == static_cast<int>(shape.size());
  for (int i = 0; fits && i < tensor.ndim(); ++i) fits = tensor.size(i) == shape.begin()[i];
  TVM_FFI_CHECK(fits, ValueError) << name << " has the wrong shape " << tensor.shape();
  return reinterpret_cast<float*>(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset());
}

float sum_of_lanes(float (&partial)[kLanes]) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

void add_rmsnorm(TensorView x, TensorView residual, TensorView weight, double eps, TensorView y,
                 TensorView total) {
  int64_t tokens = x.ndim() > 0 ? x.size(0) : 0;
  const float* in = data_of(x, "x", {tokens, kHidden});
  const float* before = data_of(residual, "residual", {tokens, kHidden});
  const float* gain = data_of(weight, "weight", {kHidden});
  float* out = data_of(y, "y", {tokens, kHidden});
  float* after = data_of(total, "total", {tokens, kHidden});
  for (int64_t at = 0; at < tokens * kHidden; at += kHidden) {
    float partial[kLanes] = {};
    for (int64_t i = at; i < at + kHidden; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        float sum = in[i + lane] + before[i + lane];
        after[i + lane] = sum;
        partial[lane] += sum * sum;
      }
    }
    float inverse = 1.0f / std::sqrt(sum_of_lanes(partial) / kHidden + static_cast<float>(eps));
    for (int64_t i = 0; i < kHidden; ++i) out[at + i] = after[at + i] * inverse * gain[i];
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_rmsnorm, add_rmsnorm);
