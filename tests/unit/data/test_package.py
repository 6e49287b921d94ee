from __future__ import annotations

import subprocess
import sys

import pytest

from flashinfer_bench import data


def loaded_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint(*sys.modules)"
    command = [sys.executable, "-c", script]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(answer.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_by("import flashinfer_bench.data")

    assert not loaded & {"torch", "pydantic", "msgspec", "numpy"}


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
