// Rotary embedding of queries and keys in bfloat16, table in float: every element is read and written once.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kHead = 128;
constexpr int64_t kHalf = kHead / 2;
// Waking a thread takes a few us if it spins and some 40 us if it sleeps; one thread needs 15 ns for a head.
constexpr int64_t kHeadsWorthThreads = 2048;

inline float widen(uint16_t half) {
  uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Round to nearest, ties to even; every NaN becomes the quiet NaN 0x7fc0, as in PyTorch.
inline uint16_t narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(is_nan ? 0x7fc0u : rounded);
}

void rotate_heads(const uint16_t* __restrict x, const float* __restrict angles, int64_t heads,
                  uint16_t* __restrict out) {
  const float* cosine = angles;
  const float* sine = angles + kHalf;
  for (int64_t head = 0; head < heads; ++head, x += kHead, out += kHead) {
    for (int64_t i = 0; i < kHalf; ++i) {
      float first = widen(x[i]);
      float second = widen(x[i + kHalf]);
      out[i] = narrow(first * cosine[i] - second * sine[i]);
      out[i + kHalf] = narrow(second * cosine[i] + first * sine[i]);
    }
  }
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

uint16_t* heads_of(TensorView tensor, const char* name, int64_t tokens, int64_t heads) {
  return static_cast<uint16_t*>(data_of(tensor, name, kDLBfloat, 16, {tokens, heads, kHead}));
}

int64_t size_of(TensorView tensor, int dimension) {
  return tensor.ndim() > dimension ? tensor.size(dimension) : 0;
}

void rope(TensorView q, TensorView k, TensorView cos_sin_cache, TensorView positions,
          TensorView q_out, TensorView k_out) {
  int64_t tokens = size_of(q, 0), q_heads = size_of(q, 1), k_heads = size_of(k, 1);
  int64_t table_rows = size_of(cos_sin_cache, 0);
  const uint16_t* queries = heads_of(q, "q", tokens, q_heads);
  const uint16_t* keys = heads_of(k, "k", tokens, k_heads);
  uint16_t* new_queries = heads_of(q_out, "q_out", tokens, q_heads);
  uint16_t* new_keys = heads_of(k_out, "k_out", tokens, k_heads);
  auto* table = static_cast<const float*>(
      data_of(cos_sin_cache, "cos_sin_cache", kDLFloat, 32, {table_rows, kHead}));
  auto* position =
      static_cast<const int64_t*>(data_of(positions, "positions", kDLInt, 64, {tokens}));

  std::atomic<int64_t> beyond{-1};
#pragma omp parallel for schedule(static) if (tokens * (q_heads + k_heads) >= kHeadsWorthThreads)
  for (int64_t token = 0; token < tokens; ++token) {
    int64_t at = position[token];
    if (at < 0 || at >= table_rows) {
      beyond = token;
      continue;
    }
    const float* angles = table + at * kHead;
    int64_t q_start = token * q_heads * kHead, k_start = token * k_heads * kHead;
    rotate_heads(queries + q_start, angles, q_heads, new_queries + q_start);
    rotate_heads(keys + k_start, angles, k_heads, new_keys + k_start);
  }
  TVM_FFI_CHECK(beyond < 0, ValueError)
      << "positions[" << beyond << "] is beyond the " << table_rows << " rows of cos_sin_cache";
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rope, rope);
