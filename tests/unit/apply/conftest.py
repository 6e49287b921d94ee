"""What a test starts is stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="applying solutions needs torch")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds and tables of these tests are their own."""
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path_factory.getbasetemp() / "apply_cache"))


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
