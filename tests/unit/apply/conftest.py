"""What a test starts is stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="applying solutions needs torch")


@pytest.fixture(autouse=True)
def nothing_stays_enabled() -> Iterator[None]:
    from flashinfer_bench.apply.runtime import RUNTIMES
    from flashinfer_bench.intercept import PATCHES

    yield
    left = RUNTIMES.all()
    for runtime in reversed(left):
        runtime.stop()
    assert left == []
    assert not PATCHES.in_force
