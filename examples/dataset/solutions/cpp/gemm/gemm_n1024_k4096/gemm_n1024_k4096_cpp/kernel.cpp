// C = A * B^T in float32. Both matrices are contiguous along K, so C is a grid of dot products: a register tile of
// 4 x 4 of them uses every loaded vector four times, and nothing needs to be packed.

#include <cstdint>
#include <cstring>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kN = 1024;
constexpr int64_t kK = 4096;
// One vector register: 512 bits where there are such, else 256.
#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
constexpr int kTileN = 4;
// Floats of K per pass: kTileN rows of B of this length (32 KB) stay in L1 while all of A passes by.
constexpr int64_t kChunk = 2048;

static_assert(kN % kTileN == 0 && kK % kChunk == 0 && kChunk % kLanes == 0,
              "only rows of A need a tail");

// A portable vector of GCC and Clang; a machine with narrower registers uses several for one.
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));

inline Vector load(const float* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline float sum(const Vector& v) {
  float partial[kLanes];
  std::memcpy(partial, &v, sizeof v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

// C[rows, kTileN] = or += A[rows, kChunk] * B[kTileN, kChunk]^T
template <int kRows>
void tile(const float* a, const float* b, float* c, bool first_chunk) {
  Vector acc[kRows][kTileN] = {};
  for (int64_t k = 0; k < kChunk; k += kLanes) {
    Vector bv[kTileN];
    for (int j = 0; j < kTileN; ++j) bv[j] = load(b + j * kK + k);
    for (int i = 0; i < kRows; ++i) {
      Vector av = load(a + i * kK + k);
      for (int j = 0; j < kTileN; ++j) acc[i][j] += av * bv[j];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kTileN; ++j) {
      float dot = sum(acc[i][j]);
      c[i * kN + j] = first_chunk ? dot : c[i * kN + j] + dot;
    }
  }
}

// The columns [column, column + kTileN) of C.
void columns(const float* a, const float* b, float* c, int64_t rows, int64_t column) {
  for (int64_t k = 0; k < kK; k += kChunk) {
    const float* b_chunk = b + column * kK + k;
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) {
      tile<4>(a + row * kK + k, b_chunk, c + row * kN + column, k == 0);
    }
    const float* a_rest = a + row * kK + k;
    float* c_rest = c + row * kN + column;
    switch (rows - row) {
      case 3: tile<3>(a_rest, b_chunk, c_rest, k == 0); break;
      case 2: tile<2>(a_rest, b_chunk, c_rest, k == 0); break;
      case 1: tile<1>(a_rest, b_chunk, c_rest, k == 0); break;
    }
  }
}

float* data_of(TensorView tensor, const char* name, int64_t rows, int64_t width) {
  TVM_FFI_CHECK(tensor.device().device_type == kDLCPU, ValueError) << name << " must be on the CPU";
  DLDataType dtype = tensor.dtype();
  TVM_FFI_CHECK(dtype.code == kDLFloat && dtype.bits == 32 && dtype.lanes == 1, TypeError)
      << name << " must be float32";
  TVM_FFI_CHECK(tensor.ndim() == 2 && tensor.size(0) == rows && tensor.size(1) == width, ValueError)
      << name << " must have shape [" << rows << ", " << width << "], not " << tensor.shape();
  TVM_FFI_CHECK(tensor.IsContiguous(), ValueError) << name << " must be contiguous";
  return reinterpret_cast<float*>(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset());
}

void gemm(TensorView A, TensorView B, TensorView C) {
  int64_t rows = A.ndim() > 0 ? A.size(0) : 0;
  const float* a = data_of(A, "A", rows, kK);
  const float* b = data_of(B, "B", kN, kK);
  float* c = data_of(C, "C", rows, kN);

#pragma omp parallel for schedule(static) if (rows > 0)
  for (int64_t column = 0; column < kN; column += kTileN) {
    columns(a, b, c, rows, column);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm, gemm);
