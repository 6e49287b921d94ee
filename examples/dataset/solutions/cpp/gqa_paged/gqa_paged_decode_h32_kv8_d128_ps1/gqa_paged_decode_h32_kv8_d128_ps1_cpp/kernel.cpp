// Decoding attention over a paged cache. A unit of work is one sequence and one key head with its four query heads:
// scores of a block of tokens, a running maximum and sum (M. Milakov, N. Gimelshein, 2018), values added up in float.

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include "fast_exp.h"

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kQoHeads = 32;
constexpr int64_t kKvHeads = 8;
constexpr int64_t kGroup = kQoHeads / kKvHeads;
constexpr int64_t kDim = 128;
constexpr int64_t kBlock = 64;
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
// One vector register: 512 bits where there are such, else 256.
#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif

static_assert(kDim % kLanes == 0 && kBlock % kLanes == 0, "the inner loops have no tail");

// A portable vector of GCC and Clang; a machine with narrower registers uses several for one.
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef uint32_t Bits __attribute__((vector_size(kLanes * sizeof(uint32_t))));
typedef uint16_t Halves __attribute__((vector_size(kLanes * sizeof(uint16_t))));

inline Vector load(const float* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline void store(float* to, const Vector& value) { std::memcpy(to, &value, sizeof value); }

// bfloat16 to float is a shift of the bits.
inline Vector load_widened(const uint16_t* from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  Bits bits = __builtin_convertvector(halves, Bits) << 16;
  Vector value;
  std::memcpy(&value, &bits, sizeof value);
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

// Round to nearest, ties to even; every NaN becomes the quiet NaN 0x7fc0, as in PyTorch.
inline uint16_t narrow(float value) {
  uint32_t bits = bits_of(value);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(value != value ? 0x7fc0u : rounded);
}

// What is known of the tokens seen so far, for each query head of a group.
struct State {
  float query[kGroup][kDim];  // scaled
  float mixed[kGroup][kDim];  // values times exp(score - largest)
  float largest[kGroup];
  float total[kGroup];
  bool has_nan[kGroup];
};

void score_block(const State& state, const uint16_t* keys, const int32_t* pages, int64_t count,
                 float scores[kGroup][kBlock]) {
  for (int64_t t = 0; t < count; ++t) {
    const uint16_t* key = keys + pages[t] * kKvHeads * kDim;
    Vector dot[kGroup] = {};
    for (int64_t d = 0; d < kDim; d += kLanes) {
      Vector k = load_widened(key + d);
      for (int g = 0; g < kGroup; ++g) dot[g] += load(&state.query[g][d]) * k;
    }
    for (int g = 0; g < kGroup; ++g) scores[g][t] = sum(dot[g]);
  }
  for (int g = 0; g < kGroup; ++g) {
    for (int64_t t = count; t < kBlock; ++t) scores[g][t] = -kInfinity;
  }
}

// Turn scores into weights relative to the largest so far, and bring what was added up before to the same scale.
void rescale(State& state, float scores[kGroup][kBlock]) {
  for (int g = 0; g < kGroup; ++g) {
    float before = state.largest[g], largest = before;
    int nans = state.has_nan[g];
    for (int64_t t = 0; t < kBlock; ++t) {
      largest = scores[g][t] > largest ? scores[g][t] : largest;
      nans |= scores[g][t] != scores[g][t];
    }
    state.has_nan[g] = nans;
    // Of scores that are all minus infinity nothing can be subtracted; zero leaves them with no weight.
    float base = largest == -kInfinity ? 0.0f : largest;
    float factor = std::exp(before - base);
    for (int64_t t = 0; t < kBlock; ++t) scores[g][t] = fast_exp(scores[g][t] - base);
    float total = 0.0f;
    for (int64_t t = 0; t < kBlock; ++t) total += scores[g][t];
    state.largest[g] = largest;
    state.total[g] = state.total[g] * factor + total;
    for (int64_t d = 0; d < kDim; ++d) state.mixed[g][d] *= factor;
  }
}

void mix_block(State& state, const uint16_t* values, const int32_t* pages, int64_t count,
               float weights[kGroup][kBlock]) {
  constexpr int64_t kPart = 4 * kLanes;  // kGroup x 4 sums stay in registers
  for (int64_t part = 0; part < kDim; part += kPart) {
    Vector mixed[kGroup][4];
    for (int g = 0; g < kGroup; ++g) {
      for (int i = 0; i < 4; ++i) mixed[g][i] = load(&state.mixed[g][part + i * kLanes]);
    }
    for (int64_t t = 0; t < count; ++t) {
      const uint16_t* value = values + pages[t] * kKvHeads * kDim + part;
      for (int i = 0; i < 4; ++i) {
        Vector v = load_widened(value + i * kLanes);
        for (int g = 0; g < kGroup; ++g) mixed[g][i] += weights[g][t] * v;
      }
    }
    for (int g = 0; g < kGroup; ++g) {
      for (int i = 0; i < 4; ++i) store(&state.mixed[g][part + i * kLanes], mixed[g][i]);
    }
  }
}

void attend(const uint16_t* query, const uint16_t* keys, const uint16_t* values,
            const int32_t* pages, int64_t tokens, float scale, uint16_t* out, float* lse) {
  State state = {};
  for (int g = 0; g < kGroup; ++g) {
    state.largest[g] = -kInfinity;
    for (int64_t d = 0; d < kDim; d += kLanes) {
      store(&state.query[g][d], load_widened(query + g * kDim + d) * scale);
    }
  }
  for (int64_t t = 0; t < tokens; t += kBlock) {
    float scores[kGroup][kBlock];
    int64_t count = tokens - t < kBlock ? tokens - t : kBlock;
    score_block(state, keys, pages + t, count, scores);
    rescale(state, scores);
    mix_block(state, values, pages + t, count, scores);
  }
  for (int g = 0; g < kGroup; ++g) {
    // The weights of an infinite score are no numbers, but the logarithm of their sum is infinite.
    bool is_infinite = state.largest[g] == kInfinity && !state.has_nan[g];
    lse[g] = is_infinite ? kInfinity : state.largest[g] * kLog2E + std::log2(state.total[g]);
    for (int64_t d = 0; d < kDim; ++d) {
      out[g * kDim + d] = tokens == 0 ? 0 : narrow(state.mixed[g][d] / state.total[g]);
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

int64_t size_of(TensorView tensor, int dimension) {
  return tensor.ndim() > dimension ? tensor.size(dimension) : 0;
}

// Refuse what would read beyond the cache.
void check_pages(const int32_t* bounds, int64_t batch, const int32_t* pages, int64_t used,
                 int64_t num_pages) {
  bool rises = bounds[0] == 0 && bounds[batch] <= used;
  for (int64_t i = 0; i < batch; ++i) rises = rises && bounds[i] <= bounds[i + 1];
  TVM_FFI_CHECK(rises, ValueError)
      << "kv_indptr must rise from 0 to at most " << used << ", the length of kv_indices";
  int32_t smallest = 0, largest = -1;
  for (int64_t i = 0; i < used; ++i) {
    smallest = pages[i] < smallest ? pages[i] : smallest;
    largest = pages[i] > largest ? pages[i] : largest;
  }
  TVM_FFI_CHECK(smallest >= 0 && largest < num_pages, ValueError)
      << "kv_indices must name pages of the cache, which has " << num_pages;
}

void paged_decode(TensorView q, TensorView k_cache, TensorView v_cache, TensorView kv_indptr,
                  TensorView kv_indices, double sm_scale, TensorView output, TensorView lse) {
  int64_t batch = size_of(q, 0), num_pages = size_of(k_cache, 0), used = size_of(kv_indices, 0);
  auto half = [](TensorView tensor, const char* name, std::initializer_list<int64_t> shape) {
    return static_cast<uint16_t*>(data_of(tensor, name, kDLBfloat, 16, shape));
  };
  auto integer = [](TensorView tensor, const char* name, int64_t length) {
    return static_cast<const int32_t*>(data_of(tensor, name, kDLInt, 32, {length}));
  };
  const uint16_t* queries = half(q, "q", {batch, kQoHeads, kDim});
  const uint16_t* keys = half(k_cache, "k_cache", {num_pages, 1, kKvHeads, kDim});
  const uint16_t* values = half(v_cache, "v_cache", {num_pages, 1, kKvHeads, kDim});
  const int32_t* bounds = integer(kv_indptr, "kv_indptr", batch + 1);
  const int32_t* pages = integer(kv_indices, "kv_indices", used);
  uint16_t* out = half(output, "output", {batch, kQoHeads, kDim});
  auto* sums = static_cast<float*>(data_of(lse, "lse", kDLFloat, 32, {batch, kQoHeads}));
  check_pages(bounds, batch, pages, used, num_pages);

#pragma omp parallel for schedule(dynamic) collapse(2)
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t head = 0; head < kKvHeads; ++head) {
      int64_t first = i * kQoHeads + head * kGroup;  // of the group's query heads
      attend(queries + first * kDim, keys + head * kDim, values + head * kDim, pages + bounds[i],
             bounds[i + 1] - bounds[i], static_cast<float>(sm_scale), out + first * kDim,
             sums + first);
    }
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(paged_decode, paged_decode);
