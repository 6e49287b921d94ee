from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.data import TraceSet
from flashinfer_bench.errors import DuplicateNameError

if TYPE_CHECKING:
    from pathlib import Path

NAME = "scaled_rowsum_n256"
TRACES = "traces/alice/reduce/scaled_rowsum_n256.jsonl"


def test_several_roots_are_one_view(build: Any, tmp_path: Path) -> None:
    one = build.dataset(tmp_path / "one", build.trace(uuid="w1"))
    two = tmp_path / "two"
    build.write(two / "solutions/b.json", build.solution("bobs", author="bob").to_json())
    build.write(two / TRACES, build.trace(uuid="w2").to_json() + "\n")

    view = TraceSet.from_paths([one, two])

    assert view.root == one
    assert view.roots == (one, two)
    assert [each.name for each in view.solutions[NAME]] == [
        "alice_rowsum_v1",
        "reference_rowsum",
        "bobs",
    ]
    assert [each.workload.uuid for each in view.traces[NAME]] == ["w1", "w2"]


def test_the_same_thing_twice_counts_once(build: Any, tmp_path: Path) -> None:
    one = build.dataset(tmp_path / "one", build.trace(uuid="w1"))
    two = build.dataset(tmp_path / "two", build.trace(uuid="w1"), build.trace(uuid="w2"))

    view = TraceSet.from_paths([one, two])

    assert len(view.definitions) == 1
    assert len(view.solutions[NAME]) == 2
    assert len(view.workloads[NAME]) == 1
    assert [each.workload.uuid for each in view.traces[NAME]] == ["w1", "w2"]
    assert [row.workload_uuid for row in view.rows()] == ["w1", "w2"]


@pytest.mark.parametrize("kind", ["definition", "solution", "workload"])
def test_two_things_of_one_name_are_an_error_naming_both(
    build: Any, tmp_path: Path, kind: str
) -> None:
    one, two = build.dataset(tmp_path / "one"), tmp_path / "two"
    changed = {
        "definition": ("definitions/d.json", json.dumps(build.definition_json | {"tags": ["x"]})),
        "solution": ("solutions/s.json", build.solution(author="eve").to_json()),
        "workload": ("workloads/w.jsonl", build.workload_line.replace("128", "64")),
    }
    build.write(two / changed[kind][0], changed[kind][1])

    with pytest.raises(DuplicateNameError, match=rf"{kind} .*one.*two"):
        TraceSet.from_paths([one, two])


def test_a_trace_goes_to_the_root_of_its_solution(build: Any, tmp_path: Path) -> None:
    one = build.dataset(tmp_path / "one")
    two = tmp_path / "two"
    build.write(two / "solutions/b.json", build.solution("bobs", author="bob").to_json())

    TraceSet.from_paths([one, two]).add_traces([build.trace(), build.trace("bobs")])

    assert (one / TRACES).exists()
    assert (two / TRACES.replace("alice", "bob")).exists()
    assert not (two / TRACES).exists()


def test_an_output_takes_everything_and_is_read_next_time(build: Any, tmp_path: Path) -> None:
    one, output = build.dataset(tmp_path / "one", build.trace(uuid="w0")), tmp_path / "output"
    before = sorted(one.rglob("*"))
    view = TraceSet.from_paths([one], output=output)

    view.append(build.trace(uuid="w1"))
    view.add_traces([build.trace(uuid="w2")])
    view.add_workload_traces([build.trace(None, uuid="w9")])

    again = TraceSet.from_paths([one], output=output)
    assert [each.workload.uuid for each in again.traces[NAME]] == ["w0", "w1", "w2"]
    assert [each.workload.uuid for each in again.workloads[NAME]][1:] == ["w9"]
    assert sorted(one.rglob("*")) == before


def test_a_view_creates_nothing(build: Any, tmp_path: Path) -> None:
    one = build.dataset(tmp_path / "one")

    TraceSet.from_paths([one], output=tmp_path / "output")

    assert not (tmp_path / "output").exists()


def test_a_blob_is_found_in_whatever_root_holds_it(build: Any, tmp_path: Path) -> None:
    one, two = build.dataset(tmp_path / "one"), tmp_path / "two"
    blob = build.write(two / "blob/workloads/a.safetensors", "x")

    view = TraceSet.from_paths([one, two])

    assert view.find_blob("./blob/workloads/a.safetensors") == blob
