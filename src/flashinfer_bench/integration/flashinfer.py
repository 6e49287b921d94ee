"""Where the existing system's users look for `install_flashinfer_integrations`."""

from __future__ import annotations

from flashinfer_bench.integration import ADAPTERS
from flashinfer_bench.moved import named_elsewhere

__getattr__ = named_elsewhere(
    __name__, {"install_flashinfer_integrations": ADAPTERS}, otherwise=ADAPTERS
)
