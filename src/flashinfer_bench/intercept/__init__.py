"""The one door into other people's code: calls, the chain of handlers that sees them, patches, adapters.

Importing it patches nothing. `flashinfer_bench.apply` and `flashinfer_bench.tracing` are handlers of the chain.
"""

from __future__ import annotations

from flashinfer_bench.intercept.call import Call, Unplaced
from flashinfer_bench.intercept.chain import CHAIN, Chain, Handler, Link, Proceed, Rank
from flashinfer_bench.intercept.patches import PATCHES, Adapter, Patch, Patches
from flashinfer_bench.intercept.registry import ADAPTERS, register_adapter, register_module

__all__ = [
    "ADAPTERS",
    "CHAIN",
    "PATCHES",
    "Adapter",
    "Call",
    "Chain",
    "Handler",
    "Link",
    "Patch",
    "Patches",
    "Proceed",
    "Rank",
    "Unplaced",
    "register_adapter",
    "register_module",
]
