"""Tables on disk: read again only when something they are made from changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.apply.config import ApplyConfig
from flashinfer_bench.apply.table import ApplyKey, Winner, digest_of, tables_here
from flashinfer_bench.data import Solution, Trace, TraceSet
from tests.unit.apply.datasets import HERE, dataset, definition, marked, trace

FAST, SLOW = marked("fast", 7), marked("slow", 5)
TRACES = [trace("fast", {"M": 2}, 3), trace("slow", {"M": 2}, 1), trace("slow", {"M": 3}, 2)]


def small(solutions: Any = (FAST, SLOW), traces: Any = TRACES, **changes: Any) -> TraceSet:
    return dataset(list(solutions), list(traces), [definition(**changes)])


def test_a_table_comes_back_as_it_was(tmp_path: Path) -> None:
    configs = {"add": ApplyConfig()}

    made = tables_here(small(), configs, HERE, folder=tmp_path)
    kept = tables_here(small(), configs, HERE, folder=tmp_path)

    assert made == kept
    assert list(kept["add"].winners) == [ApplyKey(axes=(("M", 2),)), ApplyKey(axes=(("M", 3),))]
    assert kept["add"].winners[ApplyKey(axes=(("M", 2),))] == Winner("fast", 3.0, 1 / 3, 1.0)


def test_the_file_holds_digest_index_and_the_best_of_each_definition(tmp_path: Path) -> None:
    tables_here(small(), {"add": ApplyConfig()}, HERE, folder=tmp_path)

    (file,) = tmp_path.glob("*.json")
    content = json.loads(file.read_text())

    assert content["digest"] == file.stem
    assert content["def_best"] == {"add": "fast"}
    index = {
        ApplyKey.model_validate_json(key): name for key, name in content["index"]["add"].items()
    }
    assert index == {ApplyKey.of({"M": 2}): "fast", ApplyKey.of({"M": 3}): "slow"}


def test_what_is_in_the_cache_is_not_read_from_the_traces(tmp_path: Path) -> None:
    configs = {"add": ApplyConfig()}
    tables_here(small(), configs, HERE, folder=tmp_path)
    (file,) = tmp_path.glob("*.json")
    file.write_text(file.read_text().replace('"slow"', '"from the file"'))

    kept = tables_here(small(), configs, HERE, folder=tmp_path)

    assert kept["add"].winners[ApplyKey.of({"M": 3})].solution == "from the file"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"digest": "another"}', '{"digest": null}'])
def test_a_file_that_is_not_what_it_should_be_is_made_anew(tmp_path: Path, content: str) -> None:
    configs = {"add": ApplyConfig()}
    made = tables_here(small(), configs, HERE, folder=tmp_path)
    (file,) = tmp_path.glob("*.json")
    file.write_text(content)

    assert tables_here(small(), configs, HERE, folder=tmp_path) == made
    assert json.loads(file.read_text())["digest"] == file.stem


def test_a_cache_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    tables = tables_here(small(), {"add": ApplyConfig()}, HERE, folder=tmp_path / "file" / "below")

    assert tables["add"].def_best == "fast"


def digest(trace_set: TraceSet, hardware: str = HERE, **config: Any) -> str:
    return digest_of(trace_set, {"add": ApplyConfig(**config)}, hardware)


OTHER_CODE: Solution = marked("fast", 8)
ONE_MORE: Trace = trace("fast", {"M": 9})


@pytest.mark.parametrize(
    "changed",
    [
        digest(small(), max_atol=0.5),
        digest(small(), max_rtol=0.5),
        digest(small(), allow_reused_buffers=True),
        digest(small(), "another device"),
        digest(small((OTHER_CODE, SLOW))),
        digest(small(traces=[*TRACES, ONE_MORE])),
        digest(small(reference="def run(A, B):\n    return B + A\n")),
    ],
    ids=["atol", "rtol", "buffers", "device", "code", "traces", "reference"],
)
def test_the_digest_changes_with_everything_that_changes_a_winner(changed: str) -> None:
    assert changed != digest(small())


def test_the_digest_stays_with_what_does_not() -> None:
    same = [
        digest(small(description="words")),
        digest(small(tags=["a", "b"])),
        digest(small(), on_miss_policy="use_def_best"),
        digest(small(), shadow=True),
    ]

    assert set(same) == {digest(small())}


def test_a_dataset_on_disk_has_the_same_digest_until_a_trace_is_added(tmp_path: Path) -> None:
    from flashinfer_bench.data import save_json_file

    TraceSet.create(tmp_path)
    save_json_file(definition(), tmp_path / "definitions/elementwise/add.json")
    for each in (FAST, SLOW):
        save_json_file(each, tmp_path / f"solutions/tester/elementwise/add/{each.name}.json")
    TraceSet.from_path(tmp_path).add_traces(TRACES)

    before, again = (digest(TraceSet.from_path(tmp_path)) for _ in range(2))
    TraceSet.from_path(tmp_path).add_traces([ONE_MORE])

    assert before == again
    assert digest(TraceSet.from_path(tmp_path)) != before
