// Rotary embedding of queries and keys, in one pass over both.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kPositions = 512;
constexpr int64_t kHeads = 8;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kDim = 16;
constexpr int64_t kHalf = kDim / 2;


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

void turn(const float* __restrict x, const float* __restrict angles, int64_t heads,
          float* __restrict out) {
  for (int64_t head = 0; head < heads; ++head, x += kDim, out += kDim) {
    for (int64_t i = 0; i < kHalf; ++i) {
      float cosine = angles[i], sine = angles[i + kHalf];
      out[i] = x[i] * cosine - x[i + kHalf] * sine;
      out[i + kHalf] = x[i + kHalf] * cosine + x[i] * sine;
    }
  }
}

void rope(TensorView q, TensorView k, TensorView table, int64_t start, TensorView q_out,
          TensorView k_out) {
  int64_t tokens = q.ndim() > 0 ? q.size(0) : 0;
  const float* queries = data_of(q, "q", {tokens, kHeads, kDim});
  const float* keys = data_of(k, "k", {tokens, kKvHeads, kDim});
  const float* angles = data_of(table, "table", {kPositions, kDim});
  float* new_queries = data_of(q_out, "q_out", {tokens, kHeads, kDim});
  float* new_keys = data_of(k_out, "k_out", {tokens, kKvHeads, kDim});
  TVM_FFI_CHECK(start >= 0 && start + tokens <= kPositions, ValueError)
      << "tokens " << start << " to " << start + tokens << " lie beyond the table";
  for (int64_t token = 0; token < tokens; ++token) {
    const float* angle = angles + (start + token) * kDim;
    turn(queries + token * kHeads * kDim, angle, kHeads, new_queries + token * kHeads * kDim);
    turn(keys + token * kKvHeads * kDim, angle, kKvHeads, new_keys + token * kKvHeads * kDim);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rope, rope);
