# expect: RUNTIME_ERROR NameError: name 'v' is not defined
# shows: File "tilelang_name.py"
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2], target="c")
def make(n):
    @T.prim_func
    def kernel(
        x: T.Tensor((n,), "float32"), w: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")
    ):
        with T.Kernel(1):
            for i in T.serial(n):
                y[i] = x[i] * v[i]

    return kernel


def run(x, w):
    return make(x.shape[0])(x, w)
