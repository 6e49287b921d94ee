// The eight largest of 128 router logits a token, with weights: a softmax over the eight alone, for scaling the
// weights to a sum of one cancels what the other experts add to the denominator.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

constexpr int kExperts = 128;
constexpr int kTopK = 8;
constexpr int kLanes = 16;
constexpr int32_t kTaken = std::numeric_limits<int32_t>::min();
// Waking a thread takes a few us if it spins and some 40 us if it sleeps; one thread needs 0.3 us for a token.
constexpr int64_t kTokensWorthThreads = 128;

static_assert(kExperts % kLanes == 0, "the loops over experts have no tail");

// An integer that orders as the float does: a NaN above all, -0 the same as 0. Never kTaken.
inline int32_t order_of(float logit) {
  float positive_zero = logit + 0.0f;
  int32_t bits;
  std::memcpy(&bits, &positive_zero, sizeof bits);
  int32_t order = bits ^ ((bits >> 31) & 0x7fffffff);
  return logit != logit ? 0x7fffffff : order;
}

// The place of the largest; the first of several.
int place_of_largest(const int32_t* order) {
  int32_t best[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) best[lane] = order[lane];
  for (int i = kLanes; i < kExperts; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      best[lane] = order[i + lane] > best[lane] ? order[i + lane] : best[lane];
    }
  }
  int32_t largest = best[0];
  for (int lane = 1; lane < kLanes; ++lane) largest = best[lane] > largest ? best[lane] : largest;
  int first = kExperts;
  for (int i = 0; i < kExperts; ++i) {
    int place = order[i] == largest ? i : kExperts;
    first = place < first ? place : first;
  }
  return first;
}

void route_token(const float* logits, float* weights, int32_t* indices) {
  alignas(64) int32_t order[kExperts];
  for (int i = 0; i < kExperts; ++i) order[i] = order_of(logits[i]);
  for (int k = 0; k < kTopK; ++k) {
    indices[k] = place_of_largest(order);
    order[indices[k]] = kTaken;
  }
  float sum = 0.0f;
  for (int k = 0; k < kTopK; ++k) {
    weights[k] = std::exp(logits[indices[k]] - logits[indices[0]]);
    sum += weights[k];
  }
  for (int k = 0; k < kTopK; ++k) weights[k] /= sum;
}

// The first element of a contiguous CPU tensor of the given dtype and shape; anything else is refused by name.
void* data_of(TensorView tensor, const char* name, DLDataTypeCode code, int bits,
              std::initializer_list<int64_t> shape) {
  TVM_FFI_CHECK(tensor.device().device_type == kDLCPU, ValueError) << name << " must be on the CPU";
  DLDataType dtype = tensor.dtype();
  TVM_FFI_CHECK(dtype.code == code && dtype.bits == bits && dtype.lanes == 1, TypeError)
      << name << " has the wrong dtype";
  bool fits = tensor.ndim() == static_cast<int>(shape.size());
  for (int i = 0; fits && i < tensor.ndim(); ++i) fits = tensor.size(i) == shape.begin()[i];
  TVM_FFI_CHECK(fits, ValueError) << name << " has the wrong shape " << tensor.shape();
  TVM_FFI_CHECK(tensor.IsContiguous(), ValueError) << name << " must be contiguous";
  return static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset();
}

void moe_routing(TensorView routing_logits, TensorView topk_weights, TensorView topk_indices) {
  int64_t tokens = routing_logits.ndim() > 0 ? routing_logits.size(0) : 0;
  auto* logits = static_cast<const float*>(
      data_of(routing_logits, "routing_logits", kDLFloat, 32, {tokens, kExperts}));
  auto* weights =
      static_cast<float*>(data_of(topk_weights, "topk_weights", kDLFloat, 32, {tokens, kTopK}));
  auto* indices =
      static_cast<int32_t*>(data_of(topk_indices, "topk_indices", kDLInt, 32, {tokens, kTopK}));

#pragma omp parallel for schedule(static) if (tokens >= kTokensWorthThreads)
  for (int64_t token = 0; token < tokens; ++token) {
    route_token(logits + token * kExperts, weights + token * kTopK, indices + token * kTopK);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(moe_routing, moe_routing);
