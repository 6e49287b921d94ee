"""A C compiler is started at the first call.

how: a subprocess builds a library in the temporary folder, and `ctypes` loads it
on: cpu
plays: row_sum
"""

import ctypes
import os
import shutil
import subprocess
import tempfile

import torch

SOURCE = """
void sums(const float *x, float *y, long rows, long width) {
  for (long r = 0; r < rows; ++r) {
    float s[8] = {0};
    for (long c = 0; c < width; c += 8)
      for (int k = 0; k < 8; ++k) s[k] += x[r * width + c + k];
    y[r] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }
}
"""
built = []


def library():
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("c++")
    if compiler is None:
        return None
    folder = tempfile.mkdtemp()
    source, target = os.path.join(folder, "sums.c"), os.path.join(folder, "sums.so")
    with open(source, "w") as file:
        file.write(SOURCE)
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", target, source], check=True)
    return ctypes.CDLL(target)


def run(x):
    if not built:
        built.append(library())
    if built[0] is None:
        return x.sum(dim=1)
    y = torch.empty(x.shape[0])
    built[0].sums(
        ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()),
        ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]),
    )  # fmt: skip
    return y
