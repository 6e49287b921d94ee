# expect: INCORRECT_DTYPE output 'y' is float64, not float32
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2], target="c")
def make(n):
    @T.prim_func
    def kernel(
        x: T.Tensor((n,), "float32"), w: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float64")
    ):
        with T.Kernel(1):
            for i in T.serial(n):
                y[i] = T.cast(x[i] * w[i], 'float64')

    return kernel


def run(x, w):
    return make(x.shape[0])(x, w)
