// Draw from the k most likely tokens of each row: the k-th largest probability by a partial selection among the
// few candidates that blocks of the row put forward, then one pass over those that reach it.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <vector>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

constexpr int64_t kVocabulary = 32000;
constexpr int64_t kBlock = 64;
constexpr int64_t kBlocks = kVocabulary / kBlock;
constexpr int64_t kRowsWorthThreads = 4;

static_assert(kVocabulary % kBlock == 0, "blocks have no tail");

struct Scratch {
  std::mt19937_64 random{std::random_device{}()};
  std::vector<float> largest = std::vector<float>(kBlocks);
  std::vector<float> ranked = std::vector<float>(kBlocks);
  std::vector<float> candidates;
  std::vector<int64_t> tokens;
};

// At least k tokens reach the k-th largest of the blocks' maxima, so the k-th largest of all lies no lower. With
// fewer blocks than k every token is a candidate.
void collect(const float* probs, int64_t top_k, Scratch& scratch) {
  for (int64_t block = 0; block < kBlocks; ++block) {
    float most = probs[block * kBlock];
    for (int64_t i = 1; i < kBlock; ++i) most = std::max(most, probs[block * kBlock + i]);
    scratch.largest[block] = most;
  }
  float floor = 0.0f;
  if (top_k <= kBlocks) {
    scratch.ranked = scratch.largest;
    auto kth = scratch.ranked.begin() + (top_k - 1);
    std::nth_element(scratch.ranked.begin(), kth, scratch.ranked.end(), std::greater<float>());
    floor = *kth;
  }
  scratch.candidates.clear();
  scratch.tokens.clear();
  for (int64_t block = 0; block < kBlocks; ++block) {
    if (scratch.largest[block] < floor) continue;
    for (int64_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
      if (probs[i] < floor) continue;
      scratch.candidates.push_back(probs[i]);
      scratch.tokens.push_back(i);
    }
  }
}

int64_t draw(const float* probs, int64_t top_k, Scratch& scratch) {
  collect(probs, top_k, scratch);
  std::vector<float>& ranked = scratch.ranked;
  ranked = scratch.candidates;
  auto kth = ranked.begin() + (top_k - 1);
  std::nth_element(ranked.begin(), kth, ranked.end(), std::greater<float>());
  const float least = *kth;
  double sum = 0.0;
  for (float value : scratch.candidates) sum += value >= least ? value : 0.0f;
  double left = std::uniform_real_distribution<double>(0.0, sum)(scratch.random);
  int64_t last = scratch.tokens.front();
  for (size_t i = 0; i < scratch.candidates.size(); ++i) {
    if (scratch.candidates[i] < least || scratch.candidates[i] <= 0.0f) continue;
    last = scratch.tokens[i];
    left -= scratch.candidates[i];
    if (left < 0.0) break;
  }
  ranked.resize(std::max<size_t>(ranked.size(), kBlocks));
  return last;
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

void top_k_sampling(TensorView probs, int64_t top_k, TensorView samples) {
  int64_t rows = probs.ndim() > 0 ? probs.size(0) : 0;
  auto* weights =
      static_cast<const float*>(data_of(probs, "probs", kDLFloat, 32, {rows, kVocabulary}));
  auto* drawn = static_cast<int64_t*>(data_of(samples, "samples", kDLInt, 64, {rows}));
  TVM_FFI_CHECK(top_k > 0 && top_k <= kVocabulary, ValueError)
      << "top_k must be between 1 and " << kVocabulary << ", not " << top_k;

#pragma omp parallel for schedule(static) if (rows >= kRowsWorthThreads)
  for (int64_t row = 0; row < rows; ++row) {
    thread_local Scratch scratch;
    drawn[row] = draw(weights + row * kVocabulary, top_k, scratch);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(top_k_sampling, top_k_sampling);
