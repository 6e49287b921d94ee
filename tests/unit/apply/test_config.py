"""Settings of apply."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from flashinfer_bench.apply import ApplyConfig, ApplyConfigRegistry, get_default_registry
from flashinfer_bench.apply.config import registry_of
from flashinfer_bench.errors import UsageError


def test_defaults_use_whatever_passed_and_build_every_winner() -> None:
    config = ApplyConfig()

    assert (config.max_atol, config.max_rtol, config.aot_ratio) == (None, None, 1.0)
    assert config.on_miss_policy == "fallback_only"


@pytest.mark.parametrize(
    "settings",
    [
        {"max_atol": 0},
        {"max_rtol": -1.0},
        {"aot_ratio": 1.1},
        {"aot_ratio": -0.1},
        {"on_miss_policy": "guess"},
        {"verify_first_n": -1},
        {"tolerence": 1.0},
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ApplyConfig(**settings)


def test_without_a_default_only_registered_definitions_are_applied() -> None:
    config = ApplyConfig(aot_ratio=0.5)
    registry = ApplyConfigRegistry().register("a", config)

    assert registry.get("a") is config
    assert registry.get("b") is None


def test_registering_chains_and_needs_override_for_what_is_there() -> None:
    first, second = ApplyConfig(), ApplyConfig(aot_ratio=0.5)
    registry = ApplyConfigRegistry(default=first).register("a", first).register("b", first)

    with pytest.raises(ValueError, match="a: there are settings already"):
        registry.register_many({"a": second, "c": second})
    after_refusal = registry.get("c")
    registry.register_many({"a": second}, override=True)

    assert after_refusal is first
    assert registry.get("a") is second


def test_one_config_is_that_of_all_definitions() -> None:
    config = ApplyConfig(aot_ratio=0.5)

    assert registry_of(config).get("anything") is config
    assert registry_of(None).get("anything") == get_default_registry().get("anything")
    with pytest.raises(UsageError, match="not str"):
        registry_of("fast")  # type: ignore[arg-type]
