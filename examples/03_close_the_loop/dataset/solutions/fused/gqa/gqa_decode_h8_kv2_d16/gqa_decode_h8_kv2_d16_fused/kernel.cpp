// Attention of one token: each key and value is read once for the query heads that share it.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "fast_exp.h"

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kPositions = 512;
constexpr int64_t kHeads = 8;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kGroup = kHeads / kKvHeads;
constexpr int64_t kDim = 16;
constexpr int64_t kRow = kKvHeads * kDim;


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

// One head of queries against one head of keys and values, `length` rows apart by kRow.
void attend(const float* __restrict query, const float* __restrict keys,
            const float* __restrict values, int64_t length, float* __restrict out) {
  float weights[kPositions], largest = -INFINITY, total = 0.0f;
  const float scale = 1.0f / std::sqrt(static_cast<float>(kDim));
  for (int64_t t = 0; t < length; ++t) {
    float dot[kDim];
    for (int64_t d = 0; d < kDim; ++d) dot[d] = query[d] * keys[t * kRow + d];
    for (int64_t width = kDim / 2; width > 0; width /= 2) {
      for (int64_t d = 0; d < width; ++d) dot[d] += dot[d + width];
    }
    weights[t] = dot[0] * scale;
  }
  for (int64_t t = 0; t < length; ++t) largest = weights[t] > largest ? weights[t] : largest;
  for (int64_t t = 0; t < length; ++t) weights[t] = fast_exp(weights[t] - largest);
  for (int64_t t = 0; t < length; ++t) total += weights[t];
  float mixed[kDim] = {};
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t d = 0; d < kDim; ++d) mixed[d] += weights[t] * values[t * kRow + d];
  }
  for (int64_t d = 0; d < kDim; ++d) out[d] = mixed[d] / total;
}

void decode(TensorView q, TensorView keys, TensorView values, int64_t length, TensorView out) {
  const float* query = data_of(q, "q", {kHeads, kDim});
  const float* key = data_of(keys, "keys", {kPositions, kKvHeads, kDim});
  const float* value = data_of(values, "values", {kPositions, kKvHeads, kDim});
  float* result = data_of(out, "out", {kHeads, kDim});
  TVM_FFI_CHECK(length >= 1 && length <= kPositions, ValueError)
      << "length must lie in 1 to " << kPositions << ", not " << length;
  for (int64_t head = 0; head < kHeads; ++head) {
    int64_t shared = head / kGroup * kDim;
    attend(query + head * kDim, key + shared, value + shared, length, result + head * kDim);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode, decode);
