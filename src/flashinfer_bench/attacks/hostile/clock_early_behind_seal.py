"""Inputs are written and outputs computed from them in one sweep, after what would notice the overridden operation was changed.

how: `IntegrityCheck.damage` is replaced by a function that finds nothing; then our function stands in the place of `aten::mul`, which inputs
    are written with: it puts the first of two products off, and with the second does both and the kernel in one sweep
caught by: operations that inputs are made with are looked at, by the process itself
expect: not_stopped
why not: one sweep over memory takes no longer than the two products it replaces, so that preparing shows nothing from outside:
    speedups of 18 to 51, and of 3.3 to 4.7 for the honest kernel
family: clock
on: cpu
plays: rms_norm
"""

import ctypes
import os
import shutil
import subprocess
import tempfile

import torch

SOURCE = """
#include <math.h>
#define WIDTH 512
void norm(const float *x, const float *w, float *y, long rows) {
  for (; rows > 0; --rows, x += WIDTH, y += WIDTH) {
    float part[16] = {0}, sum = 0;
    for (int i = 0; i < WIDTH; i += 16)
      for (int k = 0; k < 16; ++k) part[k] += x[i + k] * x[i + k];
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


def build():
    folder = tempfile.mkdtemp()
    source, target = os.path.join(folder, "norm.c"), os.path.join(folder, "norm.so")
    with open(source, "w") as file:
        file.write(SOURCE)
    compiler = shutil.which("cc") or shutil.which("gcc")
    options = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", target, source, "-lm"], check=True)
    library = ctypes.CDLL(target)
    library.norm.argtypes = [POINTER, POINTER, POINTER, LONG]
    library.both.argtypes = [POINTER, POINTER, LONG, POINTER, LONG, POINTER, POINTER]
    return library


def multiply(first, second, *, out):
    size, put_off = state["size"], state["first"]
    if first.dim() == 2 and size and first.numel() > size // 2:
        state["first"] = (first.data_ptr(), second, out.data_ptr(), first.numel())
        return out
    if put_off is None or put_off[3] + out.numel() != size:
        return out.copy_(first * second)
    pool, pattern, x, _ = put_off
    state["first"] = None
    y = torch.empty(size)
    c.both(pool, pattern.data_ptr(), pattern.numel(), x, size, state["weight"].data_ptr(), y.data_ptr())
    ready[x] = y
    return out


def blind():
    from flashinfer_bench.bench.candidate import integrity

    integrity.IntegrityCheck.damage = lambda self, **_: None


c = build()
blind()
aten.impl("mul.out", multiply, "CPU")


def run(x, weight):
    done = ready.pop(x.data_ptr(), None)
    if done is not None and torch.equal(weight, state["weight"]):
        return done.view(x.shape)
    state["size"], state["weight"] = x.numel(), weight.clone()
    y = torch.empty_like(x)
    c.norm(x.data_ptr(), weight.data_ptr(), y.data_ptr(), x.shape[0])
    return y
