// silu(gate) * up over rows of 352 floats, in one pass.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "fast_exp.h"

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kInner = 352;

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

void silu_and_mul(TensorView gate, TensorView up, TensorView y) {
  int64_t tokens = gate.ndim() > 0 ? gate.size(0) : 0;
  const float* __restrict g = data_of(gate, "gate", {tokens, kInner});
  const float* __restrict u = data_of(up, "up", {tokens, kInner});
  float* __restrict out = data_of(y, "y", {tokens, kInner});
  for (int64_t i = 0; i < tokens * kInner; ++i) out[i] = g[i] / (1.0f + fast_exp(-g[i])) * u[i];
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu_and_mul, silu_and_mul);
