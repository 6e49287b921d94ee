// RMSNorm over rows of 128 floats: a row is read twice, the second time from L1.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kHidden = 128;
constexpr float kEpsilon = 1e-5f;
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

void rmsnorm(TensorView x, TensorView weight, TensorView y) {
  int64_t tokens = x.ndim() > 0 ? x.size(0) : 0;
  const float* in = data_of(x, "x", {tokens, kHidden});
  const float* gain = data_of(weight, "weight", {kHidden});
  float* out = data_of(y, "y", {tokens, kHidden});
  for (int64_t token = 0; token < tokens; ++token, in += kHidden, out += kHidden) {
    float partial[kLanes] = {};
    for (int64_t i = 0; i < kHidden; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) partial[lane] += in[i + lane] * in[i + lane];
    }
    float inverse = 1.0f / std::sqrt(sum_of_lanes(partial) / kHidden + kEpsilon);
    for (int64_t i = 0; i < kHidden; ++i) out[i] = in[i] * inverse * gain[i];
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rmsnorm, rmsnorm);
