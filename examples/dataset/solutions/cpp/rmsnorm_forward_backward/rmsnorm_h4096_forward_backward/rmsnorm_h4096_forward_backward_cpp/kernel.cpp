// RMSNorm and its gradients over rows of 4096 bfloat16. Each row is read twice, the second time from L1.
// A block of rows adds up its share of the gain's gradient. Blocks are added in their order, whatever the
// threads, so that the same inputs give the same bits.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kHidden = 4096;
constexpr float kEps = 1e-5f;
// Independent partial sums: enough to hide the latency of a fused multiply-add on 512-bit vectors.
constexpr int kLanes = 64;
constexpr int64_t kBlockRows = 16;
// Waking a thread takes a few us if it spins and some 40 us if it sleeps; one thread needs about 1 us for a row.
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

float sum_of_lanes(float* partial) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

// With n = x / rms(x) and g = grad * weight, the gradient by x is (g - n * mean(g * n)) / rms(x).
void rmsnorm_row(const uint16_t* __restrict row, const uint16_t* __restrict weight,
                 const uint16_t* __restrict grad, uint16_t* __restrict out, uint16_t* __restrict grad_row,
                 float* __restrict grad_weight) {
  float squares[kLanes] = {};
  float products[kLanes] = {};
  for (int64_t i = 0; i < kHidden; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      float x = widen(row[i + lane]);
      squares[lane] += x * x;
      products[lane] += x * (widen(grad[i + lane]) * widen(weight[i + lane]));
    }
  }
  float inverse_rms = 1.0f / std::sqrt(sum_of_lanes(squares) / kHidden + kEps);
  float mean = sum_of_lanes(products) * inverse_rms / kHidden;
  for (int64_t i = 0; i < kHidden; ++i) {
    float normalised = widen(row[i]) * inverse_rms;
    float arriving = widen(grad[i]);
    float gain = widen(weight[i]);
    out[i] = narrow(normalised * gain);
    grad_row[i] = narrow((arriving * gain - normalised * mean) * inverse_rms);
    grad_weight[i] += arriving * normalised;
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

void check_vector(TensorView tensor, const char* name) {
  TVM_FFI_CHECK(tensor.ndim() == 1 && tensor.size(0) == kHidden, ValueError)
      << name << " must have shape [" << kHidden << "], not " << tensor.shape();
}

void rmsnorm_forward_backward(TensorView hidden_states, TensorView weight, TensorView grad_output,
                              TensorView output, TensorView grad_hidden_states,
                              TensorView grad_weight) {
  int64_t rows = hidden_states.ndim() > 0 ? hidden_states.size(0) : 0;
  check_matrix(hidden_states, "hidden_states", rows);
  check_matrix(grad_output, "grad_output", rows);
  check_matrix(output, "output", rows);
  check_matrix(grad_hidden_states, "grad_hidden_states", rows);
  check_vector(weight, "weight");
  check_vector(grad_weight, "grad_weight");
  const uint16_t* x = data_of(hidden_states, "hidden_states");
  const uint16_t* w = data_of(weight, "weight");
  const uint16_t* grad = data_of(grad_output, "grad_output");
  uint16_t* out = data_of(output, "output");
  uint16_t* grad_x = data_of(grad_hidden_states, "grad_hidden_states");
  uint16_t* grad_w = data_of(grad_weight, "grad_weight");

  int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  std::vector<float> sums(static_cast<size_t>(std::max<int64_t>(blocks, 1) * kHidden));
#pragma omp parallel for schedule(static) if (rows >= kRowsWorthThreads)
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t end = std::min(rows, (block + 1) * kBlockRows);
    for (int64_t row = block * kBlockRows; row < end; ++row) {
      int64_t at = row * kHidden;
      rmsnorm_row(x + at, w, grad + at, out + at, grad_x + at, &sums[block * kHidden]);
    }
  }
  for (int64_t block = 1; block < blocks; ++block) {
    for (int64_t i = 0; i < kHidden; ++i) sums[i] += sums[block * kHidden + i];
  }
  for (int64_t i = 0; i < kHidden; ++i) grad_w[i] = narrow(sums[i]);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rmsnorm_forward_backward, rmsnorm_forward_backward);
