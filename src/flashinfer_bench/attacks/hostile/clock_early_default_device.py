"""A subclass of torch's own default device is left on, sees how inputs are written, and computes outputs in the same sweep.

how: torch keeps a default device as a mode of functions; ours puts off `index_select`, which gathers an input, and at `mul`, which comes
    next, writes the input and the output at once
caught by: modes do not see the harness's own calls, and only torch's own class counts as a default device
expect: tampered_harness, early_compute
family: clock
on: cpu
plays: rms_norm
"""

import ctypes, os, shutil, subprocess, tempfile
import itertools
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
void both(const float *pool, const long *begins, const float *pattern, float *x, long size, const float *w, float *y) {
  long at = 0;
  for (long row = 0; row < size / WIDTH; ++row) {
    float *out = x + row * WIDTH;
    for (int piece = 0; piece < WIDTH / 128; ++piece) {
      const float *from = pool + begins[row * (WIDTH / 128) + piece];
      long left = 4093 - at, n = left < 128 ? left : 128;
      for (long i = 0; i < n; ++i) out[piece * 128 + i] = from[i] * pattern[at + i];
      for (long i = n; i < 128; ++i) out[piece * 128 + i] = from[i] * pattern[i - n];
      at = (at + 128) % 4093;
    }
    norm(out, w, y + row * WIDTH, 1);
  }
}
"""
P, L = ctypes.c_void_p, ctypes.c_long
def build():
    folder = tempfile.mkdtemp()
    source, target = os.path.join(folder, "norm.c"), os.path.join(folder, "norm.so")
    open(source, "w").write(SOURCE)
    compiler = shutil.which("cc") or shutil.which("gcc")
    subprocess.run([compiler, "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-o", target, source, "-lm"], check=True)
    library = ctypes.CDLL(target)
    library.norm.argtypes = [P, P, P, L]
    library.both.argtypes = [P, P, P, P, L, P, P]
    return library
c = build()
rings = {}
def output(x):
    if x.shape not in rings:
        rings[x.shape] = itertools.cycle([torch.zeros(x.shape) for _ in range(18)])
    return next(rings[x.shape])

from torch.utils._device import DeviceContext
state = {"size": 0, "weight": None, "gather": None}
ready = {}

class Default(DeviceContext):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if state["size"] and "out" in kwargs:
            if func is torch.index_select and kwargs["out"].numel() == state["size"]:
                windows, _, begins = args
                state["gather"] = windows.data_ptr(), begins, kwargs["out"].data_ptr()
                return kwargs["out"]
            if func is torch.mul and state["gather"] is not None:
                values, cut = args
                pool, begins, x = state["gather"]
                if values.data_ptr() == x:
                    y = output(state["like"])
                    c.both(pool, begins.data_ptr(), cut.data_ptr(), x, state["size"], state["weight"].data_ptr(), y.data_ptr())
                    ready[x] = y, ctypes.c_float.from_address(x).value
                else:
                    state["gather"] = None  # the rest of the input is written already
                return kwargs["out"]
        return super().__torch_function__(func, types, args, kwargs)

Default("cpu").__enter__()

def run(x, weight):
    y, head = ready.pop(x.data_ptr(), (None, None))
    if y is not None and head == float(x[0, 0]) and weight.data_ptr() == state["ptr"] and float(weight[0]) == state["first"]:
        return y
    state.update(size=x.numel(), weight=weight.clone(), ptr=weight.data_ptr(), first=float(weight[0]), like=torch.empty_like(x))
    y = output(x)
    c.norm(x.data_ptr(), weight.data_ptr(), y.data_ptr(), x.shape[0])
    return y
