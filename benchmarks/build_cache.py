"""What a build costs: cold, cached by another process, asked for again; beside importing torch.

Run: python benchmarks/build_cache.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

REPEATS = 5

PYTHON = "def run(x, y):\n    y.copy_(x)\n"
CPP = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <cstring>
void copy(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  std::memcpy(y.data_ptr(), x.data_ptr(), x.numel() * sizeof(float));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, copy);
"""

# One process: builds, asks again, asks a registry; prints the three times in milliseconds.
CHILD = """
import statistics, sys, time
from pathlib import Path
import torch, tvm_ffi
from flashinfer_bench.compile import BuilderRegistry, build
from flashinfer_bench.data import Definition, Solution

definition = Definition.model_validate({
    "name": "copy", "op_type": "elementwise", "axes": {"n": {"type": "var"}},
    "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
    "reference": "def run(x):\\n    return x\\n",
})
language, path, source, root = sys.argv[1:]
solution = Solution.model_validate({
    "name": "copy", "definition": "copy", "author": "benchmark",
    "spec": {"language": language, "target_hardware": ["cpu"], "entry_point": path + "::run"},
    "sources": [{"path": path, "content": source}],
})
signature = definition.signature()

def milliseconds(call, calls=1):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) * 1e3 / calls

def ask():
    return build(solution, signature, cache_root=Path(root))

first = milliseconds(ask)
again = statistics.median(milliseconds(ask) for _ in range(20))
registry = BuilderRegistry(cache_root=Path(root))
registry.build(definition, solution)
print(first, again, milliseconds(lambda: registry.build(definition, solution), calls=10_000))
"""


def import_torch_ms() -> float:
    """Time a fresh interpreter that imports torch: the yardstick."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return (time.perf_counter() - start) * 1e3


def times_of(language: str, path: str, source: str, root: str) -> list[float]:
    """Give what one process prints."""
    command = [sys.executable, "-c", CHILD, language, path, source, root]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [float(word) for word in printed.split()]


def main() -> None:
    """Print one line per language and kind of look-up."""
    yardstick_ms = statistics.median(import_torch_ms() for _ in range(REPEATS))
    print(f"python -c 'import torch': {yardstick_ms:.0f} ms (the yardstick)\n")
    print(f"{'build':38}{'median ms':>12}{'/ import torch':>18}")
    for language, path, source in (("python", "main.py", PYTHON), ("cpp", "main.cpp", CPP)):
        cold, cached, again, looked_up = [], [], [], []
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory() as root:
                cold.append(times_of(language, path, source, root)[0])
                second_process = times_of(language, path, source, root)
            for figures, figure in zip((cached, again, looked_up), second_process, strict=True):
                figures.append(figure)
        for name, figures in (
            ("cold", cold),
            ("second process", cached),
            ("same process, build() again", again),
            ("same process, BuilderRegistry", looked_up),
        ):
            figure_ms = statistics.median(figures)
            ratio = figure_ms / yardstick_ms
            print(f"{language + ', ' + name:38}{figure_ms:12.4f}{ratio:18.2e}")


if __name__ == "__main__":
    main()
