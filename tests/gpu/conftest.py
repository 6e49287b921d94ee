"""Tests that need a card; where there is none they say so instead of passing."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="GPU tests need torch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(pytest.mark.skip(reason="no CUDA device here: not run on a card"))
