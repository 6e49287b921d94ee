// x = hidden_states + residual, and RMSNorm of x, over rows of 4096 bfloat16: what is read is read once, and x waits
// for its scale in L1, in float.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kHidden = 4096;
constexpr float kEps = 1e-5f;
// Independent partial sums: enough to hide the latency of a fused multiply-add on 512-bit vectors.
constexpr int kLanes = 64;
// Waking a thread takes a few us if it spins and some 40 us if it sleeps; one thread needs 0.9 us for a row.
constexpr int64_t kRowsWorthThreads = 64;

static_assert(kHidden % kLanes == 0, "the row loops have no tail");

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

// x = hidden + residual, rounded into residual_out and exact in sum; returns its sum of squares.
float add_row(const uint16_t* __restrict hidden, const uint16_t* __restrict residual,
              uint16_t* __restrict residual_out, float* __restrict sum) {
  float partial[kLanes] = {};
  for (int64_t i = 0; i < kHidden; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      float x = widen(hidden[i + lane]) + widen(residual[i + lane]);
      sum[i + lane] = x;
      residual_out[i + lane] = narrow(x);
      partial[lane] += x * x;
    }
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

void scale_row(const float* __restrict sum, const uint16_t* __restrict weight, float inverse_rms,
               uint16_t* __restrict out) {
  for (int64_t i = 0; i < kHidden; ++i) out[i] = narrow(sum[i] * inverse_rms * widen(weight[i]));
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

uint16_t* rows_of(TensorView tensor, const char* name, int64_t rows) {
  return static_cast<uint16_t*>(data_of(tensor, name, kDLBfloat, 16, {rows, kHidden}));
}

void fused_add_rmsnorm(TensorView hidden_states, TensorView residual, TensorView weight,
                       TensorView output, TensorView residual_out) {
  int64_t rows = hidden_states.ndim() > 0 ? hidden_states.size(0) : 0;
  const uint16_t* hidden = rows_of(hidden_states, "hidden_states", rows);
  const uint16_t* before = rows_of(residual, "residual", rows);
  auto* gain = static_cast<const uint16_t*>(data_of(weight, "weight", kDLBfloat, 16, {kHidden}));
  uint16_t* out = rows_of(output, "output", rows);
  uint16_t* after = rows_of(residual_out, "residual_out", rows);

#pragma omp parallel for schedule(static) if (rows >= kRowsWorthThreads)
  for (int64_t row = 0; row < rows; ++row) {
    alignas(64) float sum[kHidden];
    int64_t start = row * kHidden;
    float squares = add_row(hidden + start, before + start, after + start, sum);
    scale_row(sum, gain, 1.0f / std::sqrt(squares / kHidden + kEps), out + start);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(fused_add_rmsnorm, fused_add_rmsnorm);
