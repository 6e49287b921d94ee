// softmax(logits / temperature) over a vocabulary: per row a maximum, an exponential with its sum, and a scaling.
// A row (513 KB) and its result stay in L2 between the three.

#include <cstdint>
#include <limits>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include "fast_exp.h"

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kVocab = 128256;
// Independent partial results: hides latency, and keeps the float sum of 128256 terms accurate.
constexpr int kLanes = 64;

static_assert(kVocab % kLanes == 0, "the row loops have no tail");

// The largest of sign * row, NaN ignored: one NaN makes the sum below, and with it the whole row, NaN anyway.
float largest(const float* row, float sign) {
  float best[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) best[lane] = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < kVocab; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      float x = sign * row[i + lane];
      best[lane] = x > best[lane] ? x : best[lane];
    }
  }
  for (int lane = 1; lane < kLanes; ++lane) best[0] = best[lane] > best[0] ? best[lane] : best[0];
  return best[0];
}

// out = exp(row / temperature - top); returns its sum.
float exponentiate(const float* __restrict row, float temperature, float top,
                   float* __restrict out) {
  float partial[kLanes] = {};
  for (int64_t i = 0; i < kVocab; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      float e = fast_exp(row[i + lane] / temperature - top);
      out[i + lane] = e;
      partial[lane] += e;
    }
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

void softmax_row(const float* row, float temperature, float* out) {
  // Division is monotonic, so the maximum of the quotients is the quotient of the extremum.
  float sign = temperature < 0.0f ? -1.0f : 1.0f;
  float top = largest(row, sign) / (sign * temperature);
  float scale = 1.0f / exponentiate(row, temperature, top, out);
  for (int64_t i = 0; i < kVocab; ++i) out[i] *= scale;
}

float* data_of(TensorView tensor, const char* name, int64_t rows) {
  TVM_FFI_CHECK(tensor.device().device_type == kDLCPU, ValueError) << name << " must be on the CPU";
  DLDataType dtype = tensor.dtype();
  TVM_FFI_CHECK(dtype.code == kDLFloat && dtype.bits == 32 && dtype.lanes == 1, TypeError)
      << name << " must be float32";
  TVM_FFI_CHECK(tensor.ndim() == 2 && tensor.size(0) == rows && tensor.size(1) == kVocab,
                ValueError)
      << name << " must have shape [" << rows << ", " << kVocab << "], not " << tensor.shape();
  TVM_FFI_CHECK(tensor.IsContiguous(), ValueError) << name << " must be contiguous";
  return reinterpret_cast<float*>(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset());
}

void softmax(TensorView logits, double temperature, TensorView probs) {
  int64_t rows = logits.ndim() > 0 ? logits.size(0) : 0;
  const float* x = data_of(logits, "logits", rows);
  float* y = data_of(probs, "probs", rows);

#pragma omp parallel for schedule(static) if (rows > 1)
  for (int64_t row = 0; row < rows; ++row) {
    softmax_row(x + row * kVocab, static_cast<float>(temperature), y + row * kVocab);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, softmax);
