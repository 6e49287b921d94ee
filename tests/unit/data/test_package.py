from __future__ import annotations

import importlib.metadata
import runpy
import subprocess
import sys
from typing import NoReturn

import pytest

import flashinfer_bench
from flashinfer_bench import data


def loaded_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint(*sys.modules)"
    command = [sys.executable, "-c", script]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(answer.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_by("import flashinfer_bench.data")

    assert not loaded & {"torch", "pydantic", "msgspec", "numpy"}


def test_a_source_tree_that_was_never_installed_has_a_version_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(name: str) -> NoReturn:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", unknown)

    package = runpy.run_path(flashinfer_bench.__file__)

    assert package["__getattr__"]("__version__") == "0.0.0.dev0"


def test_loading_a_dataset_needs_no_torch() -> None:
    loaded = loaded_by("from flashinfer_bench.data import *; TraceSet().summary(); schemas()")

    assert not loaded & {"torch", "numpy", "rich"}


@pytest.mark.parametrize("name", data.__all__)
def test_every_public_name_has_a_home(name: str) -> None:
    assert getattr(data, name) is not None


def test_listing_the_package_gives_the_public_names() -> None:
    assert dir(data) == sorted(data.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Definitoin"):
        data.Definitoin  # noqa: B018


@pytest.mark.parametrize("entity", ["Definition", "workload", "Solution", "trace", "Profile"])
def test_every_entity_has_a_described_schema(entity: str) -> None:
    schema = data.schema_of(entity)

    described = [
        schema.get("properties", {}),
        *(each.get("properties", {}) for each in schema["$defs"].values()),
    ]
    assert all(field["description"] for fields in described for field in fields.values())


def test_an_unknown_entity_is_corrected() -> None:
    with pytest.raises(KeyError, match="did you mean 'solution'"):
        data.schema_of("solutoin")
    assert set(data.schemas()) >= {"Definition", "Workload", "Solution", "Trace", "Profile"}
