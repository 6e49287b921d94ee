// C = A * B^T in float32 with B packed beforehand. A panel holds kPanel rows of B with K outermost, so that the inner
// loop reads it in order and adds a broadcast element of A times it to whole registers of C: no sums across a register.

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::Tensor;
using tvm::ffi::TensorView;

constexpr int64_t kN = 1024;
constexpr int64_t kK = 4096;
// One vector register: 512 bits where there are such, else 256, and how many rows of sums fit in all of them.
#ifdef __AVX512F__
constexpr int kLanes = 16;
constexpr int kTileM = 12;
#else
constexpr int kLanes = 8;
constexpr int kTileM = 6;
#endif
constexpr int64_t kPanel = 2 * kLanes;
// Steps along K a tile takes before the next tile follows: that part of a panel stays in L1 meanwhile.
constexpr int64_t kChunk = 256;

static_assert(kN % kPanel == 0 && kK % kChunk == 0 && kChunk % 4 == 0, "only A has a tail");

// A portable vector of GCC and Clang; a machine with narrower registers uses several for one.
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));

inline Vector load(const float* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline void store(float* to, const Vector& value) { std::memcpy(to, &value, sizeof value); }

// C[kRows, kPanel] = or += A[rows, kChunk] * panel[kChunk, kPanel]. A tile of few rows would wait for its own sums, so
// it keeps kWays of them and adds them at the end.
template <int kRows, int kWays>
void tile(const float* a, const float* panel, float* c, bool first_chunk) {
  Vector low[kWays][kRows] = {}, high[kWays][kRows] = {};
  for (int64_t k = 0; k < kChunk; k += kWays) {
    for (int way = 0; way < kWays; ++way) {
      Vector b_low = load(panel + (k + way) * kPanel);
      Vector b_high = load(panel + (k + way) * kPanel + kLanes);
      for (int i = 0; i < kRows; ++i) {
        low[way][i] += a[i * kK + k + way] * b_low;
        high[way][i] += a[i * kK + k + way] * b_high;
      }
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int way = 1; way < kWays; ++way) {
      low[0][i] += low[way][i];
      high[0][i] += high[way][i];
    }
    float* to = c + i * kN;
    if (!first_chunk) {
      low[0][i] += load(to);
      high[0][i] += load(to + kLanes);
    }
    store(to, low[0][i]);
    store(to + kLanes, high[0][i]);
  }
}

// Calls the tile of as many rows as are left.
template <int kRows>
void last_tile(int64_t rows, const float* a, const float* panel, float* c, bool first_chunk) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return tile<kRows, (kRows < 3 ? 4 : 1)>(a, panel, c, first_chunk);
    last_tile<kRows - 1>(rows, a, panel, c, first_chunk);
  }
}

void columns(const float* a, const float* panel, float* c, int64_t rows) {
  for (int64_t k = 0; k < kK; k += kChunk) {
    const float* part = panel + k * kPanel;
    int64_t row = 0;
    for (; row + kTileM <= rows; row += kTileM) {
      tile<kTileM, 1>(a + row * kK + k, part, c + row * kN, k == 0);
    }
    last_tile<kTileM - 1>(rows - row, a + row * kK + k, part, c + row * kN, k == 0);
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

// Memory that tvm-ffi frees with the tensor.
struct Allocator {
  void AllocData(DLTensor* tensor) {
    tensor->data = ::operator new(kN * kK * sizeof(float), std::align_val_t(64));
  }
  void FreeData(DLTensor* tensor) { ::operator delete(tensor->data, std::align_val_t(64)); }
};

// [kN / kPanel, kK, kPanel], from B [kN, kK].
Tensor prepare(TensorView B) {
  auto* b = static_cast<const float*>(data_of(B, "B", kDLFloat, 32, {kN, kK}));
  Tensor packed = Tensor::FromNDAlloc(Allocator(), {kN / kPanel, kK, kPanel},
                                      DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  auto* to = static_cast<float*>(packed.data_ptr());
#pragma omp parallel for schedule(static)
  for (int64_t column = 0; column < kN; column += kPanel) {
    for (int64_t k = 0; k < kK; ++k) {
      for (int64_t j = 0; j < kPanel; ++j) {
        to[column * kK + k * kPanel + j] = b[(column + j) * kK + k];
      }
    }
  }
  return packed;
}

void gemm(TensorView packed, TensorView A, TensorView B, TensorView C) {
  int64_t rows = A.ndim() > 0 ? A.size(0) : 0;
  auto* panels = static_cast<const float*>(
      data_of(packed, "packed", kDLFloat, 32, {kN / kPanel, kK, kPanel}));
  auto* a = static_cast<const float*>(data_of(A, "A", kDLFloat, 32, {rows, kK}));
  auto* c = static_cast<float*>(data_of(C, "C", kDLFloat, 32, {rows, kN}));

#pragma omp parallel for schedule(static) if (rows > 0)
  for (int64_t column = 0; column < kN; column += kPanel) {
    columns(a, panels + column * kK, c + column, rows);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(prepare, prepare);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm, gemm);
