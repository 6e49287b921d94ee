"""Inputs are written and outputs computed from them in one sweep, by an operation that is overridden for autocast, which is left on.

how: our function stands under the dispatch key `AutocastCPU` of `aten::mul.out`, which inputs are written with, and autocast stays on after a call
caught by: operations that inputs are made with are looked at for each dispatch key that plain tensors can meet
expect: tampered_harness, hidden_work, early_compute
family: clock
on: cpu
plays: rms_norm
"""

import ctypes, os, shutil, subprocess, tempfile
import torch

SOURCE = r"""
#include <math.h>
#define WIDTH 512
void norm(const float *x, const float *w, float *y, long rows) {
  for (; rows > 0; --rows, x += WIDTH, y += WIDTH) {
    float part[16] = {0}, sum = 0;
    for (int i = 0; i < WIDTH; i += 16) for (int k = 0; k < 16; ++k) part[k] += x[i + k] * x[i + k];
    for (int k = 0; k < 16; ++k) sum += part[k];
    float scale = 1 / sqrtf(sum / WIDTH + 1e-6f);
    for (int i = 0; i < WIDTH; ++i) y[i] = x[i] * scale * w[i];
  }
}
void both(const float *pool, const float *pattern, long period, float *x, long size, const float *w, float *y) {
  long rows = 0;
  for (long at = 0; at < size; at += period) {
    long stop = at + period < size ? at + period : size;
    for (long i = at; i < stop; ++i) x[i] = pool[i] * pattern[i - at];
    norm(x + rows * WIDTH, w, y + rows * WIDTH, stop / WIDTH - rows);
    rows = stop / WIDTH;
  }
}
"""
POINTER, LONG = ctypes.c_void_p, ctypes.c_long
state = {"first": None, "size": 0, "weight": None}
ready = {}
aten = torch.library.Library("aten", "IMPL")
below = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


def build():
    folder = tempfile.mkdtemp()
    source, target = os.path.join(folder, "norm.c"), os.path.join(folder, "norm.so")
    open(source, "w").write(SOURCE)
    compiler = shutil.which("cc") or shutil.which("gcc")
    subprocess.run([compiler, "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-o", target, source, "-lm"], check=True)
    library = ctypes.CDLL(target)
    library.norm.argtypes = [POINTER, POINTER, POINTER, LONG]
    library.both.argtypes = [POINTER, POINTER, LONG, POINTER, LONG, POINTER, POINTER]
    return library


def multiply(first, second, *, out):
    with torch._C._ExcludeDispatchKeyGuard(below):
        size, put_off = state["size"], state["first"]
        if first.dim() == 2 and size and first.numel() > size // 2:
            state["first"] = (first.data_ptr(), second, out.data_ptr(), first.numel())
            return out
        if put_off is None or put_off[3] + out.numel() != size:
            return torch.mul(first, second, out=out)
        pool, pattern, x, _ = put_off
        state["first"] = None
        y = torch.empty(size)
        c.both(pool, pattern.data_ptr(), pattern.numel(), x, size, state["weight"].data_ptr(), y.data_ptr())
        ready[x] = y
        return out


c = build()
aten.impl("mul.out", multiply, "AutocastCPU")


def run(x, weight):
    torch.set_autocast_enabled("cpu", True)
    done = ready.pop(x.data_ptr(), None)
    if done is not None and torch.equal(weight, state["weight"]):
        return done.view(x.shape)
    state["size"], state["weight"] = x.numel(), weight.clone()
    y = torch.empty_like(x)
    c.norm(x.data_ptr(), weight.data_ptr(), y.data_ptr(), x.shape[0])
    return y
