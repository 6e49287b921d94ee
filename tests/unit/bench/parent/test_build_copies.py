from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flashinfer_bench.bench.parent import build_copies
from flashinfer_bench.bench.parent.build_copies import Rehearsals, merge
from tests.flow.kernels import HONEST, solution

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SOLUTION = solution(HONEST)


def test_what_is_written_after_the_build_is_gone_for_the_next_process(tmp_path: Path) -> None:
    first = build_copies.take(tmp_path, SOLUTION)
    (first.folder / "python").mkdir()
    (first.folder / "python" / "built.py").write_text("built")
    first.keep()
    assert not first.has_grown()
    (first.folder / "notes").write_text("what I have seen")
    (first.folder / "python" / "built.py").write_text("changed")
    assert first.has_grown()
    first.discard()
    second = build_copies.take(tmp_path, SOLUTION)
    assert (second.folder / "python" / "built.py").read_text() == "built"
    assert not (second.folder / "notes").exists()
    second.discard()


def test_two_processes_of_the_same_code_share_no_folder(tmp_path: Path) -> None:
    one, two = (build_copies.take(tmp_path, SOLUTION) for _ in range(2))
    assert one.root != two.root
    one.discard()
    assert build_copies.take(tmp_path, SOLUTION).root == one.root


def test_a_folder_left_by_a_killed_benchmark_is_emptied(tmp_path: Path) -> None:
    taken = build_copies.take(tmp_path, SOLUTION)
    taken.discard()
    taken.folder.mkdir(parents=True)
    (taken.folder / "notes").write_text("old")
    assert list(build_copies.take(tmp_path, SOLUTION).folder.iterdir()) == []


def test_a_solution_gets_its_folder_back_while_others_have_theirs(tmp_path: Path) -> None:
    mine = build_copies.take(tmp_path, SOLUTION)
    mine.discard()
    others = [build_copies.take(tmp_path, solution(HONEST + "\n" * n)) for n in range(1, 4)]
    assert build_copies.take(tmp_path, SOLUTION).root == mine.root
    assert len({each.root for each in (mine, *others)}) == 4


def test_recipes_that_name_another_processs_folder_stay_behind(tmp_path: Path) -> None:
    """FlashInfer writes such a file only where there is none; with an old one it would build into another folder."""
    first = build_copies.take(tmp_path, SOLUTION)
    place = first.folder / "home" / ".cache" / "flashinfer" / "norm"
    place.mkdir(parents=True)
    (place / "norm.so").write_text("built")
    (place / "build.ninja").write_text(f"build {place}/norm.so: link norm.o")
    first.keep()
    second = build_copies.take(tmp_path, SOLUTION)
    copied = second.folder / place.relative_to(first.folder)
    assert second.root != first.root
    assert [each.name for each in copied.iterdir()] == ["norm.so"]


def test_links_are_copied_as_links_and_never_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("key")
    source = tmp_path / "source"
    source.mkdir()
    (source / "to_folder").symlink_to(secret)
    (source / "to_file").symlink_to(secret / "key")
    merge(source, tmp_path / "target")
    assert (tmp_path / "target" / "to_folder").is_symlink()
    assert (tmp_path / "target" / "to_file").is_symlink()
    merge(source, tmp_path / "target")  # and what a link leads to is not merged into
    assert sorted(each.name for each in secret.iterdir()) == ["key"]


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    os.mkfifo(source / "inner" / "fifo")
    (source / "inner" / "file").write_text("content")
    merge(source, tmp_path / "target")
    assert [each.name for each in (tmp_path / "target" / "inner").iterdir()] == ["file"]


def test_files_that_are_there_are_not_overwritten(tmp_path: Path) -> None:
    for name, content in (("source", "new"), ("target", "old")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(content)
    merge(tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "target" / "file").read_text() == "old"


def test_locks_and_drafts_stay_behind(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("build_locks", ".building-x", ".copying-1"):
        (source / name).mkdir(parents=True)
    merge(source, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_tree_without_end_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_copies, "_MOST_FILES", 10)
    deep = tmp_path / "source"
    for number in range(100):
        deep = deep / "d"
        if number < 40:
            deep.mkdir(parents=True)
    for number in range(30):
        (tmp_path / "source" / f"f{number}").write_text("")
    merge(tmp_path / "source", tmp_path / "target")
    assert sum(1 for _ in (tmp_path / "target").rglob("*")) <= 10


def test_a_rehearsal_is_due_once_for_each_workload_of_what_compiles_late(tmp_path: Path) -> None:
    rehearsals = Rehearsals(tmp_path)
    assert not rehearsals.is_due(SOLUTION, "w1")
    rehearsals.note(SOLUTION)
    assert rehearsals.is_due(SOLUTION, "w1")
    rehearsals.note(SOLUTION, "w1")
    assert not rehearsals.is_due(SOLUTION, "w1")
    assert rehearsals.is_due(SOLUTION, "w2")
