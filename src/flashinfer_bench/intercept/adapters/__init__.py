"""How calls of torch, FlashInfer and transformers-style modules read as calls of definitions."""

from __future__ import annotations

from flashinfer_bench.intercept.adapters import flashinfer, modules, torch_functional

BUILT_IN = (*torch_functional.ADAPTERS, *flashinfer.ADAPTERS, *modules.ADAPTERS)
"""The adapters that are registered from the start."""
