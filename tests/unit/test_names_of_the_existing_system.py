"""Names that users of the existing system import."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from pydantic import ValidationError

import flashinfer_bench
from flashinfer_bench.apply import ApplyKey
from flashinfer_bench.cli import cli
from flashinfer_bench.cli.main import cli as root
from flashinfer_bench.env import get_fib_dataset_path


def test_names_stand_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIB_DATASET_PATH", "/somewhere")

    assert cli is root
    assert get_fib_dataset_path() == Path("/somewhere")
    assert flashinfer_bench.__version_tuple__[0] == int(flashinfer_bench.__version__.split(".")[0])


@pytest.mark.parametrize(
    ("module", "name", "place"),
    [
        ("bench.evaluators", "DefaultEvaluator", "flashinfer_bench.judging"),
        ("bench.evaluators", "resolve_evaluator", "judging.choice.judge_name"),
        ("bench.runner", "IsolatedRunner", "flashinfer_bench.Benchmark"),
        ("bench.runner", "RunnerError", "flashinfer_bench.errors"),
        ("compile.builders", "TorchBuilder", "torch_extension"),
        ("integration", "install_flashinfer_integrations", "enable_apply"),
        ("integration.flashinfer", "install_flashinfer_integrations", "enable_apply"),
    ],
)
def test_a_name_that_is_elsewhere_says_what_serves_here(module: str, name: str, place: str) -> None:
    with pytest.raises(ImportError, match=place):
        exec(f"from flashinfer_bench.{module} import {name}")  # as a user writes it


@pytest.mark.parametrize("place", ["flashinfer_bench.errors", "flashinfer_bench.judging.choice"])
def test_the_places_named_are_there(place: str) -> None:
    assert importlib.import_module(place)


def test_a_key_of_apply_is_a_model() -> None:
    key = ApplyKey(axes=(("M", 2),))

    assert ApplyKey.model_validate_json(key.model_dump_json()) == key
    assert {key: 1}[ApplyKey.of({"M": 2})] == 1
    with pytest.raises(ValidationError):
        ApplyKey(axes="M")
