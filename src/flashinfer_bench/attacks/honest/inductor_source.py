"""What `torch.compile` generated is saved as a source file, and that file is the kernel.

how: `AsyncCompile` of Inductor builds a C++ loop when the module is loaded; nothing is traced
plays: long_wave
on: cpu
slow: yes
"""

import torch
from torch._inductor.async_compile import AsyncCompile

empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
async_compile = AsyncCompile()

cpp_fused_add_cos_exp_mul_neg_sin_tanh_0 = async_compile.cpp_pybinding(['float*', 'const float*', 'const int64_t'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0,
                       const float* in_ptr0,
                       const int64_t ks0)
{
    constexpr int64_t width = at::vec::Vectorized<float>::size();
    #pragma omp parallel
    {
        #pragma omp for
        for(int64_t x0=0; x0<ks0; x0+=width)
        {
            const int64_t count = std::min(width, ks0 - x0);
            auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + x0, count);
            auto tmp1 = tmp0.tanh();
            auto tmp2 = tmp0.sin();
            auto tmp3 = tmp1 + tmp2;
            auto tmp4 = tmp3.neg();
            auto tmp5 = tmp4 * tmp3;
            auto tmp6 = tmp5.exp();
            auto tmp7 = static_cast<float>(3.0);
            auto tmp8 = at::vec::Vectorized<float>(tmp7);
            auto tmp9 = tmp0 * tmp8;
            auto tmp10 = tmp9.cos();
            auto tmp11 = tmp6 + tmp10;
            tmp11.store(in_out_ptr0 + x0, count);
        }
    }
}
''')

async_compile.wait(globals())
del async_compile


def run(x):
    out = empty_strided_cpu((x.shape[0],), (1,), torch.float32)
    cpp_fused_add_cos_exp_mul_neg_sin_tanh_0(out, x, x.shape[0])
    return out
