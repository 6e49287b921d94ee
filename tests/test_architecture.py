"""What holds for the package as a whole: what loads what, who reads the environment, who prints."""

from __future__ import annotations

import ast
import functools
import importlib
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import flashinfer_bench

SOURCE = Path(flashinfer_bench.__file__).parent
REPOSITORY = Path(__file__).parents[1]
PARENT_MODULES = [
    "flashinfer_bench",
    "flashinfer_bench.attacks.running",
    "flashinfer_bench.bench",
    "flashinfer_bench.bench.benchmark",
    "flashinfer_bench.bench.channel",
    "flashinfer_bench.bench.config",
    "flashinfer_bench.bench.jobs",
    "flashinfer_bench.bench.parent.launcher",
    "flashinfer_bench.bench.plan",
    "flashinfer_bench.bench.parent.pool",
    "flashinfer_bench.bench.protocol",
    "flashinfer_bench.bench.record",
    "flashinfer_bench.bench.parent.session",
    "flashinfer_bench.compile",
    "flashinfer_bench.data",
    "flashinfer_bench.errors",
    "flashinfer_bench.report",
    "flashinfer_bench.tensors.machine",
    "flashinfer_bench.tensors.planned",
    "flashinfer_bench.tracing.session",
    "flashinfer_bench.tracing",
    "flashinfer_bench.intercept",
    "flashinfer_bench.__main__",
    "flashinfer_bench.attacks.command",
    *(
        ".".join(("flashinfer_bench", *path.relative_to(SOURCE).with_suffix("").parts))
        for files in (
            *("cli/*.py", "cli/*/*.py", "stats/*.py", "text/*.py", "*/commands/*.py"),
            *("*/screens.py", "*/screens/*.py"),
        )
        for path in sorted(SOURCE.glob(files))
        if path.stem != "__init__"
    ),
]
HEAVY = ["torch", "numpy", "tvm_ffi", "safetensors.torch"]

ENVIRONMENT_READERS = {"data/settings.py"}
ENVIRONMENT_WRITERS = {
    "bench/candidate/examined_process.py",  # Triton asks nowhere else where its kernels go
    "bench/tools/reproduction.py",  # becomes a script of its own, which tells Triton to interpret
    "bench/sandbox/enforcement.py",  # a solution's files go to folders of its own
    "compile/builders/tilelang.py",  # tells TileLang, which asks nowhere else, to make C
    "compile/builders/triton.py",  # tells Triton, which asks nowhere else, to interpret
    "decompose/census/model_texts.py",  # tells transformers that no network may be asked
}
PRINTERS = {"cli"}


def in_fresh_process(code: str, *, folder: Path | None = None, home: Path | None = None) -> str:
    environment = {**os.environ, **({} if home is None else {"HOME": str(home)})}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=folder, env=environment
    )
    return done.stdout.strip()


def test_no_module_of_the_parent_loads_anything_heavy() -> None:
    code = f"""
import importlib, sys
for name in {PARENT_MODULES!r}:
    importlib.import_module(name)
    print(*(f"{{name}} loads {{heavy}}" for heavy in {HEAVY!r} if heavy in sys.modules))
"""

    assert in_fresh_process(code).split("\n") == [""]


@pytest.mark.parametrize("name", flashinfer_bench.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(flashinfer_bench, name) is not None


PACKAGES = "apply bench compile data decompose intercept judging tracing".split()  # noqa: SIM905


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_a_package_offers_is_there(package: str) -> None:
    offering = importlib.import_module(f"flashinfer_bench.{package}")

    assert [name for name in offering.__all__ if getattr(offering, name, None) is None] == []


def test_using_the_public_names_loads_nothing_heavy() -> None:
    code = f"""
import sys, flashinfer_bench
names = [getattr(flashinfer_bench, name) for name in flashinfer_bench.__all__]
print(*(heavy for heavy in {HEAVY!r} if heavy in sys.modules))
"""

    assert in_fresh_process(code) == ""


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Benchmrk'"):
        flashinfer_bench.Benchmrk  # noqa: B018  # looking it up is the point


def required(name: str, seen: set[str]) -> set[str]:
    """A package and all that it requires without extras."""
    if name not in seen:
        seen.add(name)
        for each in map(Requirement, metadata.requires(name) or ()):
            if each.marker is None or each.marker.evaluate({"extra": ""}):
                required(each.name.lower(), seen)
    return seen


def test_the_core_requires_no_torch() -> None:
    packages = required("flashinfer-bench", set())

    assert {"pydantic", "pydantic-core"} <= {name.replace("_", "-") for name in packages}
    assert not packages & {"torch", "numpy", "triton", "apache-tvm-ffi", "tilelang"}


def everything_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_importing_starts_nothing_and_writes_nothing(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    code = f"""
import importlib, os, threading
import psutil
before = dict(os.environ)
for name in {PARENT_MODULES!r}:
    importlib.import_module(name)
print(len(psutil.Process().children(recursive=True)), threading.active_count(), os.environ == before)
"""

    said = in_fresh_process(code, folder=folder, home=home)

    assert said == "0 1 True"
    assert everything_below(home) == []
    assert everything_below(folder) == []


def test_importing_patches_nothing_of_torch() -> None:
    code = f"""
import importlib, torch
def look(): return {{**vars(torch), **vars(torch.Tensor)}}
before = look()
for name in {PARENT_MODULES!r}:
    importlib.import_module(name)
after = look()
print(len(before) > 1000, sorted(n for n in before if before[n] is not after.get(n)))
"""

    assert in_fresh_process(code) == "True []"


@functools.cache
def sources() -> dict[str, str]:
    """Every source file by its path in the package; the kernels of the attack suite are data."""
    return {
        path.relative_to(SOURCE).as_posix(): path.read_text()
        for path in sorted(SOURCE.rglob("*.py"))
        if path.parent.name not in {"hostile", "honest"}
    }


@functools.cache
def nodes(*words: str) -> list[tuple[str, ast.AST]]:
    """Every piece of syntax of the files that hold one of these words, beside the file it stands in."""
    return [
        (path, node)
        for path, text in sources().items()
        if any(word in text for word in words)
        for node in ast.walk(ast.parse(text))
    ]


ENVIRONMENT = ("environ", "getenv", "putenv")


@functools.cache
def environment_uses() -> set[tuple[str, ast.AST]]:
    """Places that say `os.environ` or `os.getenv`."""
    return {
        (path, node)
        for path, node in nodes(*ENVIRONMENT)
        if isinstance(node, ast.Attribute)
        and node.attr in {"environ", "environb", "getenv", "putenv"}
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    }


@functools.cache
def environment_writes() -> set[tuple[str, ast.AST]]:
    """Places that say `os.environ[...] = ...`."""
    return {
        (path, target.value)
        for path, node in nodes(*ENVIRONMENT)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
    }


def test_only_the_settings_read_the_environment() -> None:
    readers = {path for path, _ in environment_uses() - environment_writes()}

    assert readers == ENVIRONMENT_READERS


def test_only_listed_files_write_the_environment() -> None:
    writers = {path for path, _ in environment_uses() & environment_writes()}

    assert writers == ENVIRONMENT_WRITERS


def test_nobody_imports_the_environment_by_name() -> None:
    importers = [
        path
        for path, node in nodes(*ENVIRONMENT)
        if isinstance(node, ast.ImportFrom)
        and node.module == "os"
        and {"environ", "getenv"} & {alias.name for alias in node.names}
    ]

    assert importers == []


def test_only_the_command_line_prints() -> None:
    printers = {
        path.partition("/")[0]
        for path, node in nodes("print(")
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    }

    assert printers <= PRINTERS


SENDS_ITS_OWN_ARGUMENTS = {  # to a child; what comes back is typed messages, or JSON
    "decompose/process.py",
    "deployed/processes.py",
}
HEARS_OF_FORKS = {"tracing/active.py"}


PICKLERS = frozenset({"pickle", "dill", "cloudpickle", "marshal", "shelve", "multiprocessing"})


def test_nothing_is_ever_unpickled() -> None:
    importers = [
        path
        for path, node in nodes(*PICKLERS)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and PICKLERS
        & {
            *(alias.name.partition(".")[0] for alias in node.names),
            (getattr(node, "module", "") or "").partition(".")[0],
        }
    ]

    assert set(importers) <= SENDS_ITS_OWN_ARGUMENTS | HEARS_OF_FORKS


def test_every_module_opens_with_a_sentence() -> None:
    silent = [path for path, text in sources().items() if not text.startswith('"""')]

    assert silent == []


def test_an_installed_package_has_every_file_that_is_no_module() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["flashinfer_bench"]
    packaged = {path for pattern in patterns for path in SOURCE.glob(pattern) if path.is_file()}
    files = {
        path
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }

    assert sorted(files - packaged) == []


def test_an_installed_package_has_every_module() -> None:
    kernels = {SOURCE / "attacks" / name for name in ("hostile", "honest", "victims")}
    folders = {path.parent for path in SOURCE.rglob("*.py")}

    assert [
        folder
        for folder in sorted(folders)
        if not (folder / "__init__.py").exists() and not kernels & {folder, *folder.parents}
    ] == []
