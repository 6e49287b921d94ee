from __future__ import annotations

from pathlib import Path

import pytest

from flashinfer_bench.data import settings


def test_paths_come_from_the_environment_at_call_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIB_DATASET_PATH", "~/data")
    monkeypatch.setenv("FIB_CACHE_PATH", "/cache")

    assert settings.dataset_path() == Path.home() / "data"
    assert settings.cache_path() == Path("/cache")


@pytest.mark.parametrize("value", [None, ""])
def test_paths_have_defaults(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    for variable in ("FIB_DATASET_PATH", "FIB_CACHE_PATH"):
        monkeypatch.delenv(variable, raising=False)
        if value is not None:
            monkeypatch.setenv(variable, value)

    assert settings.dataset_path() == Path.home() / ".cache/flashinfer_bench/dataset"
    assert settings.cache_path() == Path.home() / ".cache/flashinfer_bench/cache"


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("true", False), ("0", False)])
def test_only_a_one_enables(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("FIB_ENABLE_APPLY", value)
    monkeypatch.setenv("FIB_ENABLE_TRACING", value)

    assert settings.is_apply_enabled() is expected
    assert settings.is_tracing_enabled() is expected


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("", False)])
def test_colour_is_refused_by_any_word(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", value)

    assert settings.is_color_refused() is expected


def test_the_hub_and_its_cache_are_where_its_own_client_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("HF_ENDPOINT", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    by_default = (settings.hub_endpoint(), settings.hub_cache_path())
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost:8000/")
    monkeypatch.setenv("HF_HOME", "/models")
    below_home = settings.hub_cache_path()
    monkeypatch.setenv("HF_HUB_CACHE", "/shared")

    assert by_default == ("https://huggingface.co", Path.home() / ".cache/huggingface/hub")
    assert settings.hub_endpoint() == "http://localhost:8000"
    assert below_home == Path("/models/hub")
    assert settings.hub_cache_path() == Path("/shared")
