from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.data import TraceSet, pack, unpack
from flashinfer_bench.errors import (
    DatasetError,
    DatasetNotFoundError,
    DatasetWarning,
    DuplicateNameError,
    UsageError,
)

if TYPE_CHECKING:
    from pathlib import Path

NAME = "scaled_rowsum_n256"
TOML = """
[solution]
name = "mine"
definition = "scaled_rowsum_n256"
author = "alice"
description = "one program per row"

[build]
language = "python"
entry_point = "main.py::run"
target_hardware = ["cpu"]
destination_passing_style = false
"""


def write_folder(build: Any, folder: Path, toml: str = TOML) -> Path:
    build.write(folder / "solution.toml", toml)
    build.write(folder / "main.py", "def run(x, alpha):\n    return x\n")
    build.write(folder / "pkg/__init__.py", "")
    build.write(folder / "pkg/config.json", "{}")
    return folder


def test_a_folder_of_files_is_a_solution(build: Any, tmp_path: Path) -> None:
    solution = pack(write_folder(build, tmp_path))

    assert (solution.name, solution.author, solution.definition) == ("mine", "alice", NAME)
    assert solution.description == "one program per row"
    assert solution.spec.destination_passing_style is False
    assert [source.path for source in solution.sources] == [
        "main.py",
        "pkg/__init__.py",
        "pkg/config.json",
    ]


@pytest.mark.parametrize(
    "sources",
    [
        {"main.py": "def run(): pass\n"},
        {"z.cu": "// 日本\r\n\ttab\n", "a/b/c.h": "", "a/d.h": 'x = "\\"\n'},
        {".hidden/kernel.py": "x", "build/a.py": "y"},
    ],
)
def test_unpacking_and_packing_give_the_same_solution(
    build: Any, tmp_path: Path, sources: dict[str, str]
) -> None:
    solution = build.solution(
        'odd "name"\\\x7f',
        sources=sources,
        dependencies=["torch", "a\nb"],
        prepare="pack",
        dsl="helion",
    )

    folder = unpack(solution, tmp_path / "new" / "folder")

    assert pack(folder).to_dict() == solution.to_dict()
    assert pack(folder).legacy_hash() == solution.legacy_hash()
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["folder"]


def test_a_new_file_beside_unpacked_ones_is_a_source(build: Any, tmp_path: Path) -> None:
    folder = unpack(build.solution(sources={"z.py": "", "a.py": ""}), tmp_path / "s")
    build.write(folder / "b.py", "new")

    assert [source.path for source in pack(folder).sources] == ["z.py", "a.py", "b.py"]


def test_solution_folders_load_beside_files(build: Any, root: Path) -> None:
    write_folder(build, root / "solutions/alice/reduce" / NAME / "mine")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace_set = TraceSet.from_path(root)

    assert [each.name for each in trace_set.solutions[NAME]] == [
        "alice_rowsum_v1",
        "reference_rowsum",
        "mine",
    ]
    trace_set.append(build.trace("mine"))


def test_one_name_as_file_and_folder_is_an_error(build: Any, root: Path) -> None:
    toml = TOML.replace('"mine"', '"alice_rowsum_v1"')
    write_folder(build, root / "solutions/alice/reduce" / NAME / "mine", toml)

    with pytest.raises(DuplicateNameError, match=r"alice_rowsum_v1\.json.*mine"):
        TraceSet.from_path(root)


def test_caches_are_left_out_and_what_is_no_text_with_a_warning(build: Any, tmp_path: Path) -> None:
    write_folder(build, tmp_path)
    build.write(tmp_path / "__pycache__/main.pyc", "x")
    build.write(tmp_path / ".git/config", "x")
    (tmp_path / "kernel.so").write_bytes(b"\x7fELF\xff")

    with pytest.warns(DatasetWarning, match=r"kernel\.so: not text") as seen:
        solution = pack(tmp_path)

    assert len(seen) == 1
    assert len(solution.sources) == 3


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("[build]", "[builds]", r"has no \[build\]; has builds outside of them"),
        ('language = "python"', 'language = "rust"', r"build\.language"),
        ('author = "alice"', "", r"author"),
        ("main.py::run", "other.py::run", r"other\.py"),
        ("[build]", "[build", "not TOML"),
        ('name = "mine"', 'name = "mine"\nsources = ["gone.py"]', r"gone\.py: no such"),
        ("[build]", '[build]\nflags = ["-O3"]', r"build\.flags"),
    ],
)
def test_a_bad_folder_names_file_and_field(
    build: Any, tmp_path: Path, old: str, new: str, fault: str
) -> None:
    write_folder(build, tmp_path, TOML.replace(old, new))

    with pytest.raises(DatasetError, match=fault):
        pack(tmp_path)


def test_a_folder_without_a_description_of_itself_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"solution\.toml: no such file"):
        pack(tmp_path)


def test_what_cannot_be_read_is_not_called_bad_toml(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        pack(tmp_path)
    (tmp_path / "solution.toml").mkdir()

    with pytest.raises(DatasetError) as raised:
        pack(tmp_path)

    assert "TOML" not in raised.value.message


def test_unpacking_never_overwrites(build: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists already"):
        unpack(build.solution(), tmp_path)
    with pytest.raises(UsageError, match="may not be called"):
        unpack(build.solution(sources={"solution.toml": ""}), tmp_path / "new")


def test_unpacking_where_nothing_can_be_written_leaves_nothing(build: Any, tmp_path: Path) -> None:
    long = build.solution(sources={"a.py": "", "x" * 300 + ".py": ""})

    with pytest.raises(OSError, match="new"):
        unpack(long, tmp_path / "new")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/etc/hostname", "../secret.py", "pkg/../../secret.py"])
def test_a_listed_source_outside_of_the_folder_is_not_read(
    build: Any, tmp_path: Path, path: str
) -> None:
    folder = write_folder(
        build, tmp_path / "it", TOML.replace("[solution]", f'[solution]\nsources = ["{path}"]')
    )
    os.mkfifo(tmp_path / "secret.py")  # whoever opened it would wait for ever

    with pytest.raises(DatasetError, match=r"must be relative and stay inside the solution"):
        pack(folder)


def test_a_listed_source_behind_a_linked_folder_stays_inside(build: Any, tmp_path: Path) -> None:
    toml = TOML.replace("[solution]", '[solution]\nsources = ["lib/util.py"]')
    folder = write_folder(build, tmp_path / "it", toml)
    build.write(tmp_path / "elsewhere/util.py", "x = 1\n")
    (folder / "lib").symlink_to("pkg")
    build.write(folder / "pkg/util.py", "x = 2\n")

    with pytest.warns(DatasetWarning, match="lib: a link to a folder, left out"):
        assert pack(folder).sources[0].content == "x = 2\n"

    (folder / "lib").unlink()
    (folder / "lib").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        DatasetError, match=r"lib: leads by a link to .*elsewhere, outside of the sol"
    ):
        pack(folder)


def test_links_in_what_is_never_read_may_lead_anywhere(build: Any, tmp_path: Path) -> None:
    folder = write_folder(build, tmp_path / "it")
    for name in (".venv", "build", "__pycache__"):
        (folder / name).symlink_to("/")

    assert len(pack(folder).sources) == 3


def test_a_source_too_large_is_refused_and_a_large_file_that_is_no_text_left_out(
    build: Any, tmp_path: Path
) -> None:
    folder = write_folder(build, tmp_path / "it")
    (folder / "weights.bin").touch()
    os.truncate(folder / "weights.bin", 1 << 40)

    with pytest.warns(DatasetWarning, match=r"weights\.bin: not text, left out"):
        assert len(pack(folder).sources) == 3

    (folder / "weights.bin").unlink()
    build.write(folder / "long.py", "#" * (16 * 1024 * 1024) + "\n")
    with pytest.raises(DatasetError, match=r"long\.py: is 16\.0 MiB; .* up to 16 MiB: make it"):
        pack(folder)


def test_a_licence_survives_packing_and_is_no_part_of_the_hash(build: Any, tmp_path: Path) -> None:
    plain = pack(write_folder(build, tmp_path / "plain"))
    toml = TOML.replace('author = "alice"', 'author = "alice"\nlicense = "Apache-2.0"')
    licensed = pack(write_folder(build, tmp_path / "licensed", toml))

    again = pack(unpack(licensed, tmp_path / "again"))

    assert again.license == "Apache-2.0"
    assert again.hash() == plain.hash()
    assert "license" not in plain.to_dict()
