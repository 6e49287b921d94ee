/*
Compiled code that carries the rounding error of a sum along.

how: Kahan's summation in eight lanes, and a table of remainders on the stack
plays: row_sum
on: cpu
*/
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void run(TensorView x, TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  const int64_t rows = x.size(0), width = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    float sum[8] = {0}, lost[8] = {0};
    for (int64_t c = 0; c < width; c += 8)
      for (int k = 0; k < 8; ++k) {
        const float value = in[r * width + c + k] - lost[k];
        const float next = sum[k] + value;
        lost[k] = (next - sum[k]) - value;
        sum[k] = next;
      }
    double total = 0;
    for (int k = 0; k < 8; ++k) total += double(sum[k]) - double(lost[k]);
    out[r] = float(total);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
