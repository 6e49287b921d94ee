from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from flashinfer_bench.data import BuildSpec, Solution, SourceFile, SupportedBindings

INC = "def run(x):\n    return x + 1\n"


def inc(**spec: Any) -> Solution:
    build = {"language": "python", "target_hardware": ["cpu"], "entry_point": "main.py::run"}
    return Solution(
        name="s",
        definition="inc",
        author="a",
        spec=BuildSpec.model_validate(build | spec),
        sources=[SourceFile(path="main.py", content=INC)],
    )


def test_the_legacy_hash_is_the_ecosystems() -> None:
    assert inc().legacy_hash() == "3a6eebe2eadd08849109502aa76340156c8dfddf"
    assert inc(dependencies=["torch"]).legacy_hash() == "be319a86e5d35c7219d4a09ccf168b76b18fcc50"


def test_a_unique_name_ends_in_the_legacy_hash() -> None:
    once = inc().with_unique_name()

    assert once.name == "s_3a6eebe2"
    assert once.with_unique_name().name == "s_3a6eebe2_3a6eebe2"


@pytest.mark.parametrize(
    "spec",
    [
        {"language": "triton"},
        {"destination_passing_style": False},
        {"dependencies": ["torch"]},
        {"prepare": "pack"},
        {"plan": "plan"},
        {"language": "cuda"},
    ],
)
def test_the_hash_covers_what_changes_behaviour(spec: dict[str, Any]) -> None:
    assert inc(**spec).hash() != inc().hash()


def test_the_hash_covers_definition_and_sources() -> None:
    source = SourceFile(path="b.py", content="")
    hashes = {
        inc().hash(),
        inc().model_copy(update={"definition": "inc2"}).hash(),
        inc().model_copy(update={"sources": [*inc().sources, source]}).hash(),
    }

    assert len(hashes) == 3


def test_the_hash_leaves_names_out() -> None:
    renamed = inc(dsl="helion", target_hardware=["H100"]).model_copy(
        update={"name": "other", "author": "b", "description": "faster"}
    )

    assert renamed.hash() == inc().hash()
    assert renamed == inc()
    assert len({renamed, inc()}) == 1


def test_parts_of_the_hash_do_not_run_together() -> None:
    one = inc(dependencies=["ab", "c"])
    other = inc(dependencies=["a", "bc"])

    assert one.legacy_hash() == other.legacy_hash()
    assert one.hash() != other.hash()


def test_no_binding_means_tvm_ffi_for_compiled_code_only() -> None:
    assert inc(language="cuda").hash() == inc(language="cuda", binding="tvm-ffi").hash()
    assert inc(language="cuda").hash() != inc(language="cuda", binding="torch").hash()
    assert inc(binding="torch").hash() == inc().hash()
    assert inc(language="cpp").spec.effective_binding is SupportedBindings.TVM_FFI


def test_the_hash_carries_its_version() -> None:
    version, digest = inc().hash().split("-")

    assert (version, len(digest)) == ("v1", 64)


def test_the_entry_is_found() -> None:
    solution = inc()

    assert solution.get_entry_path() == Path("main.py")
    assert solution.get_entry_symbol() == "run"
    assert solution.get_entry_source() == solution.sources[0]


def test_defaults_are_the_ecosystems() -> None:
    assert inc().spec.destination_passing_style is True
    assert inc().spec.dependencies == []
    assert inc().spec.binding is None


def test_an_empty_source_file_is_allowed() -> None:
    assert SourceFile(path="pkg/__init__.py", content="").content == ""


@pytest.mark.parametrize("path", ["", "/main.py", "../main.py", "a/../../b.py", ".", "a\0b"])
def test_a_source_may_not_leave_its_folder(path: str) -> None:
    with pytest.raises(ValidationError):
        SourceFile(path=path, content="x")


@pytest.mark.parametrize(
    "spec",
    [
        {"entry_point": "main.py"},
        {"entry_point": "main.py::run::x"},
        {"entry_point": "::run"},
        {"entry_point": "main.py::"},
        {"entry_point": "other.py::run"},
        {"target_hardware": []},
        {"language": "rust"},
        {"binding": "pybind"},
        {"dependencies": [""]},
        {"entrypoint": "main.py::run"},
    ],
)
def test_a_build_that_cannot_be_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        inc(**spec)


@pytest.mark.parametrize(
    "paths", [[], ["main.py", "main.py"], ["main.py", "./main.py"], ["main.py", "a", "a/b"]]
)
def test_sources_that_do_not_fit_together_are_refused(paths: list[str]) -> None:
    with pytest.raises(ValidationError):
        Solution(
            name="s",
            definition="d",
            author="a",
            spec=inc().spec,
            sources=[SourceFile(path=path, content="") for path in paths],
        )


def test_a_solution_is_frozen() -> None:
    with pytest.raises(ValidationError):
        inc().name = "other"  # type: ignore[misc]
