# expect: INCORRECT_NUMERICAL trial 0, call 0: output 'y':
# shows:  of 300 elements differ
# shows: up to 1e1  #
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
                y[i] = x[i] + w[i]

    return kernel


def run(x, w):
    return make(x.shape[0])(x, w)
