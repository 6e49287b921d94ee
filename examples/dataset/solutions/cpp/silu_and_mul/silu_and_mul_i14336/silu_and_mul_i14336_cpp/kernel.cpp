// silu(gate) * up for a fused [gate | up] projection in bfloat16: one pass, float arithmetic in registers.

#include <cstdint>
#include <cstring>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include "fast_exp.h"

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kInter = 14336;
// A thread's unit of work. Rows are cut into blocks so that few tokens still occupy many threads.
constexpr int64_t kBlock = 2048;
constexpr int64_t kBlocksPerRow = kInter / kBlock;
// Waking a thread takes a few us if it spins and some 40 us if it sleeps; one thread needs 0.7 us for a block.
constexpr int64_t kBlocksWorthThreads = 32;

static_assert(kInter % kBlock == 0, "blocks tile a row exactly");

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

void activate_block(const uint16_t* __restrict gate, const uint16_t* __restrict up,
                    uint16_t* __restrict out) {
  for (int64_t i = 0; i < kBlock; ++i) {
    float g = widen(gate[i]);
    float silu = g / (1.0f + fast_exp(-g));
    out[i] = narrow(silu * widen(up[i]));
  }
}

uint16_t* data_of(TensorView tensor, const char* name, int64_t rows, int64_t columns) {
  TVM_FFI_CHECK(tensor.device().device_type == kDLCPU, ValueError) << name << " must be on the CPU";
  DLDataType dtype = tensor.dtype();
  TVM_FFI_CHECK(dtype.code == kDLBfloat && dtype.bits == 16 && dtype.lanes == 1, TypeError)
      << name << " must be bfloat16";
  TVM_FFI_CHECK(tensor.ndim() == 2 && tensor.size(0) == rows && tensor.size(1) == columns,
                ValueError)
      << name << " must have shape [" << rows << ", " << columns << "], not " << tensor.shape();
  TVM_FFI_CHECK(tensor.IsContiguous(), ValueError) << name << " must be contiguous";
  return reinterpret_cast<uint16_t*>(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset());
}

void silu_and_mul(TensorView gate_up, TensorView output) {
  int64_t rows = gate_up.ndim() > 0 ? gate_up.size(0) : 0;
  const uint16_t* x = data_of(gate_up, "gate_up", rows, 2 * kInter);
  uint16_t* y = data_of(output, "output", rows, kInter);

  int64_t blocks = rows * kBlocksPerRow;
#pragma omp parallel for schedule(static) if (blocks >= kBlocksWorthThreads)
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t row = block / kBlocksPerRow;
    int64_t column = block % kBlocksPerRow * kBlock;
    const uint16_t* gate = x + row * 2 * kInter + column;
    activate_block(gate, gate + kInter, y + row * kInter + column);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu_and_mul, silu_and_mul);
