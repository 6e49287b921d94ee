from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.compile import compiler
from flashinfer_bench.errors import ToolchainMissingError

if TYPE_CHECKING:
    from pathlib import Path


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_compiler_that_cxx_names_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = program(tmp_path / "mine", "exit 0")
    monkeypatch.setenv("CXX", f"{mine} --option")

    assert compiler.compiler_command() == [str(mine), "--option"]


def test_an_upgraded_compiler_is_another_toolchain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(program(tmp_path / "mine", "version 12")))
    before = compiler.toolchain_facts()
    program(tmp_path / "mine", "the version 13")

    after = compiler.toolchain_facts()

    assert before["compiler"] != after["compiler"]
    assert before["cpu"] == after["cpu"]


def test_a_named_compiler_that_is_not_there_is_not_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "absent"))

    with pytest.raises(
        ToolchainMissingError, match=r"CXX names .*absent.*correct it, or unset CXX"
    ):
        compiler.toolchain_facts()


def test_arithmetic_keeps_its_meaning_unless_a_source_says_otherwise() -> None:
    assert not any("fast-math" in flag or flag == "-Ofast" for flag in compiler.FLAGS)
