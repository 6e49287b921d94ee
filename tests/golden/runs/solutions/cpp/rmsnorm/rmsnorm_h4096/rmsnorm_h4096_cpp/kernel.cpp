// RMSNorm over rows of 4096 bfloat16: each row is read twice, the second time from L1,
// and nothing is stored in between.

#include <cmath>
#include <cstdint>
#include <cstring>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kHidden = 4096;
constexpr float kEps = 1e-5f;
// Independent partial sums: enough to hide the latency of a fused multiply-add on 512-bit vectors.
constexpr int kLanes = 8;
// Waking a thread takes a few us if it spins and some 40 us if it sleeps; one thread needs 0.5 us for a row.
constexpr int64_t kRowsWorthThreads = 96;

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

float sum_of_squares(const uint16_t* row) {
  float partial[kLanes] = {};
  for (int64_t i = 0; i < kHidden; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      float x = widen(row[i + lane]);
      partial[lane] += x * x;
    }
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

void normalise_row(const uint16_t* __restrict row, const uint16_t* __restrict weight,
                   uint16_t* __restrict out) {
  float inverse_rms = 1.0f / std::sqrt(sum_of_squares(row) / kHidden + kEps);
  for (int64_t i = 0; i < kHidden; ++i) {
    out[i] = narrow(widen(row[i]) * inverse_rms * widen(weight[i]));
  }
}

uint16_t* data_of(TensorView tensor, const char* name) {
  TVM_FFI_CHECK(tensor.device().device_type == kDLCPU, ValueError) << name << " must be on the CPU";
  DLDataType dtype = tensor.dtype();
  TVM_FFI_CHECK(dtype.code == kDLBfloat && dtype.bits == 16 && dtype.lanes == 1, TypeError)
      << name << " must be bfloat16";
  TVM_FFI_CHECK(tensor.IsContiguous(), ValueError) << name << " must be contiguous";
  return reinterpret_cast<uint16_t*>(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset());
}

void check_matrix(TensorView tensor, const char* name, int64_t rows) {
  TVM_FFI_CHECK(tensor.ndim() == 2 && tensor.size(0) == rows && tensor.size(1) == kHidden,
                ValueError)
      << name << " must have shape [" << rows << ", " << kHidden << "], not " << tensor.shape();
}

void rmsnorm(TensorView hidden_states, TensorView weight, TensorView output) {
  int64_t rows = hidden_states.ndim() > 0 ? hidden_states.size(0) : 0;
  check_matrix(hidden_states, "hidden_states", rows);
  check_matrix(output, "output", rows);
  TVM_FFI_CHECK(weight.ndim() == 1 && weight.size(0) == kHidden, ValueError)
      << "weight must have shape [" << kHidden << "], not " << weight.shape();
  const uint16_t* x = data_of(hidden_states, "hidden_states");
  const uint16_t* w = data_of(weight, "weight");
  uint16_t* y = data_of(output, "output");

#pragma omp parallel for schedule(static) if (rows >= kRowsWorthThreads)
  for (int64_t row = 0; row < rows; ++row) {
    normalise_row(x + row * kHidden, w, y + row * kHidden);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rmsnorm, rmsnorm);
