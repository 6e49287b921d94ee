"""Where the existing system's users look for adapters; here `enable_apply` and `enable_tracing` install them."""

from __future__ import annotations

from flashinfer_bench.moved import named_elsewhere

ADAPTERS = (
    "`enable_apply` and `enable_tracing` install the adapters and take them away again; "
    "they are in `flashinfer_bench.intercept.adapters`"
)
__getattr__ = named_elsewhere(
    __name__, {"install_flashinfer_integrations": ADAPTERS}, otherwise=ADAPTERS
)
