"""One module per way to turn sources into a callable; none knows another."""

from __future__ import annotations

from flashinfer_bench.moved import named_elsewhere

__getattr__ = named_elsewhere(
    __name__,
    {},
    otherwise="each builder is in a module of its own (python, triton, tilelang, torch_extension, tvm_ffi); "
    "`flashinfer_bench.compile.BuilderRegistry` picks the one that fits",
)
