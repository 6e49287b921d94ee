from __future__ import annotations

import copy
import json
import pickle
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.data import Layout, Trace, TraceSet, trace_lists
from flashinfer_bench.errors import (
    DatasetError,
    DatasetNotFoundError,
    DatasetWarning,
    DuplicateNameError,
    UnknownNameError,
)

if TYPE_CHECKING:
    from pathlib import Path

NAME = "scaled_rowsum_n256"
TRACES = "traces/alice/reduce/scaled_rowsum_n256.jsonl"


def test_the_lines_of_the_list_asked_for_last_are_decoded_once_unless_they_are_many(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = [build.trace(speedup=2), build.trace(uuid="w2", speedup=3)]
    trace_set = TraceSet.from_path(build.dataset(tmp_path, *traces))
    decoded: list[object] = []
    decode = trace_lists.contenders_of_segment
    monkeypatch.setattr(
        trace_lists, "contenders_of_segment", lambda each: decoded.append(each) or decode(each)
    )

    assert [trace_set.get_best_trace(NAME) for _ in range(2)] == [traces[1]] * 2
    assert len(decoded) == 1

    trace_set.append(build.trace(uuid="w3", speedup=4))
    assert trace_set.get_best_trace(NAME) == build.trace(uuid="w3", speedup=4)
    trace_set.traces[NAME] = traces[:1]
    assert trace_set.get_best_trace(NAME) == traces[0]
    assert len(decoded) == 1

    monkeypatch.setattr(trace_lists, "_MOST_BYTES_AT_HAND", 0)
    trace_set = TraceSet.from_path(tmp_path)
    assert [trace_set.get_best_trace(NAME).workload.uuid for _ in range(2)] == ["w3"] * 2
    assert len(decoded) == 3


def test_a_dataset_loads(build: Any, tmp_path: Path) -> None:
    traces = [build.trace(), build.trace(uuid="w2", status="TIMEOUT")]

    trace_set = TraceSet.from_path(build.dataset(tmp_path, *traces))

    assert trace_set.root == tmp_path
    assert trace_set.definitions == {NAME: build.definition()}
    assert [each.name for each in trace_set.solutions[NAME]] == [
        "alice_rowsum_v1",
        "reference_rowsum",
    ]
    assert trace_set.workloads[NAME] == [Trace.model_validate_json(build.workload_line)]
    assert trace_set.traces[NAME] == traces
    assert isinstance(trace_set.traces[NAME], list)


def test_the_environment_names_the_dataset(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.dataset(tmp_path)
    monkeypatch.setenv("FIB_DATASET_PATH", str(tmp_path))

    assert list(TraceSet.from_path().definitions) == [NAME]


def test_loading_a_missing_path_names_it_and_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="typo") as caught:
        TraceSet.from_path(tmp_path / "typo")

    assert isinstance(caught.value, DatasetNotFoundError)
    assert not (tmp_path / "typo").exists()


def test_loading_an_empty_folder_creates_nothing(tmp_path: Path) -> None:
    trace_set = TraceSet.from_path(tmp_path)

    assert trace_set.definitions == {}
    assert list(tmp_path.iterdir()) == []


def test_creating_makes_an_empty_dataset_and_keeps_a_full_one(build: Any, tmp_path: Path) -> None:
    created = TraceSet.create(tmp_path / "new")
    build.dataset(tmp_path / "new")

    assert created.to_dict() == {"definitions": {}, "solutions": {}, "workload": {}, "traces": {}}
    assert list(TraceSet.create(tmp_path / "new").definitions) == [NAME]


@pytest.mark.parametrize("file", ["x.json", "a/b/c/d/e.json"])
def test_definitions_load_from_any_depth(build: Any, tmp_path: Path, file: str) -> None:
    build.write(tmp_path / "definitions" / file, json.dumps(build.definition_json))

    assert list(TraceSet.from_path(tmp_path).definitions) == [NAME]


@pytest.mark.parametrize(
    ("kind", "content"), [("definitions", "definition"), ("solutions", "solution")]
)
def test_a_name_in_two_files_is_an_error_naming_both(
    build: Any, tmp_path: Path, kind: str, content: str
) -> None:
    text = getattr(build, content)().to_json()
    build.write(tmp_path / kind / "one.json", text)
    build.write(tmp_path / kind / "sub" / "two.json", text)

    with pytest.raises(ValueError, match=r"one\.json.*two\.json"):
        TraceSet.from_path(tmp_path)


def test_two_solutions_of_one_name_in_memory_are_an_error(build: Any) -> None:
    solutions = {"a": [build.solution()], "b": [build.solution(definition="b")]}

    with pytest.raises(DuplicateNameError, match="alice_rowsum_v1"):
        TraceSet(solutions=solutions)


def test_workload_only_records_among_traces_load_as_workloads(build: Any, tmp_path: Path) -> None:
    old = tmp_path / "traces" / f"{NAME}.jsonl"
    build.write(old, f"{build.workload_line}\n{build.trace_line}\n{build.workload_line}\n")

    trace_set = TraceSet.from_path(tmp_path)

    assert len(trace_set.workloads[NAME]) == 2
    assert trace_set.traces[NAME] == [Trace.model_validate_json(build.trace_line)]


def test_one_file_may_hold_traces_of_several_definitions(build: Any, tmp_path: Path) -> None:
    lines = [build.trace(definition="a"), build.trace(definition="b"), build.trace(definition="a")]
    build.write(tmp_path / "traces/all.jsonl", "".join(f"{each.to_json()}\n" for each in lines))

    traces = TraceSet.from_path(tmp_path).traces

    assert {name: len(each) for name, each in traces.items()} == {"a": 2, "b": 1}


def test_lines_in_other_people_s_style_load(build: Any, tmp_path: Path) -> None:
    spaced = json.dumps(json.loads(build.trace_line))
    reordered = json.dumps(dict(reversed(json.loads(build.trace_line).items())))
    build.write(tmp_path / "traces/a.jsonl", f"{spaced}\n\n{reordered}")

    trace_set = TraceSet.from_path(tmp_path)

    assert trace_set.traces[NAME] == [Trace.model_validate_json(build.trace_line)] * 2
    assert len(list(trace_set.rows())) == 2


def test_a_full_trace_among_workloads_is_an_error_with_its_place(
    build: Any, tmp_path: Path
) -> None:
    build.write(tmp_path / "workloads/w.jsonl", f"{build.workload_line}\n{build.trace_line}\n")
    trace_set = TraceSet.from_path(tmp_path)

    with pytest.raises(DatasetError, match=r"w\.jsonl:2: a full trace"):
        trace_set.workloads[NAME]


def test_a_torn_last_line_is_reported_and_not_fatal(build: Any, tmp_path: Path) -> None:
    build.write(tmp_path / TRACES, f"{build.trace_line}\n{build.trace_line[:300]}")

    with pytest.warns(DatasetWarning, match=r"jsonl:2: torn last line"):
        trace_set = TraceSet.from_path(tmp_path)

    assert len(trace_set.traces[NAME]) == 1


def test_a_bad_field_surfaces_at_first_access_with_its_place(build: Any, tmp_path: Path) -> None:
    bad = build.trace_line.replace('"latency_ms":0.0061', '"latency_ms":-1')
    build.write(tmp_path / TRACES, f"{build.trace_line}\n{bad}\n")

    trace_set = TraceSet.from_path(tmp_path)

    for _ in range(2):
        with pytest.raises(DatasetError, match=r"jsonl:2:\d+: .*performance.latency_ms"):
            trace_set.traces[NAME]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"status":"PASSED"', '"status":7', "status"),
        ("0.0021", '"much"', r"correctness\.max_relative_error"),
    ],
)
def test_a_bad_line_surfaces_in_rows_with_its_place(
    build: Any, tmp_path: Path, old: str, new: str, field: str
) -> None:
    bad = build.trace_line.replace(old, new)
    build.write(tmp_path / TRACES, f"{build.trace_line}\n{bad}\n")

    with pytest.raises(DatasetError, match=rf"jsonl:2:\d+: Trace\.evaluation\.{field}"):
        list(TraceSet.from_path(tmp_path).rows())


def test_unknown_keys_warn_once_for_a_dataset(build: Any, tmp_path: Path) -> None:
    content = copy.deepcopy(build.definition_json)
    content["inputs"]["x"]["optinal"] = content["inputs"]["alpha"]["optinal"] = True
    build.write(tmp_path / "definitions/d.json", json.dumps(content))
    line = build.trace_line.replace('"log":""', '"log":"","extra_key":1')
    build.write(tmp_path / TRACES, f"{line}\n{line}\n")

    with pytest.warns(DatasetWarning, match=r"'optinal' of TensorSpec ignored \(2 times\)"):
        trace_set = TraceSet.from_path(tmp_path)
    with pytest.warns(DatasetWarning, match=r"'extra_key' of Evaluation ignored \(2 times\)"):
        traces = trace_set.traces[NAME]

    assert len(traces) == 2


def test_lists_behave_as_a_dict_of_lists(build: Any, tmp_path: Path) -> None:
    trace = build.trace()
    root = build.dataset(tmp_path, trace)
    plain = {NAME: [trace]}

    def load() -> Any:
        return TraceSet.from_path(root).traces

    assert isinstance(load(), dict)
    assert load() == plain
    assert dict(load()) == plain
    assert {**load()} == plain
    assert load() | {"b": []} == plain | {"b": []}
    assert {"b": []} | load() == {"b": []} | plain
    assert load().copy() == plain
    assert copy.deepcopy(load()) == plain
    assert pickle.loads(pickle.dumps(load())) == plain
    assert list(load()) == [NAME]
    assert (len(load()), NAME in load(), "b" in load()) == (1, True, False)
    assert load().get(NAME) == [trace]
    assert load().get("b", 7) == 7
    assert load().pop(NAME) == [trace]
    assert load().popitem() == (NAME, [trace])
    assert load().setdefault(NAME, []) == [trace]
    assert list(load().values()) == [[trace]]
    assert repr(load()) == repr(plain)
    with pytest.raises(KeyError):
        load()["b"]


def test_changes_of_lists_are_honoured(build: Any, tmp_path: Path) -> None:
    trace_set = TraceSet.from_path(build.dataset(tmp_path, build.trace(speedup=2.0)))

    trace_set.traces[NAME].append(build.trace(speedup=5.0))
    after_append = trace_set.get_best_trace(NAME)
    trace_set.traces[NAME] = [build.trace(speedup=1.0)]
    after_assignment = list(trace_set.rows(NAME))
    trace_set.traces.update({NAME: []})

    assert after_append == build.trace(speedup=5.0)
    assert [row.speedup for row in after_assignment] == [1.0]
    assert list(trace_set.rows()) == []


def test_everything_becomes_json(build: Any, tmp_path: Path) -> None:
    trace = build.trace(status="INCORRECT_NUMERICAL", errors=float("inf"))

    whole = TraceSet.from_path(build.dataset(tmp_path, trace)).to_dict()

    assert json.loads(json.dumps(whole, allow_nan=False)) == whole
    assert whole["traces"][NAME] == [trace.to_dict()]
    assert whole["definitions"][NAME]["name"] == NAME


def test_a_solution_is_found_by_name(build: Any) -> None:
    trace_set = TraceSet(solutions={NAME: [build.solution()]})

    trace_set.solutions[NAME].append(build.solution("later"))

    assert trace_set.get_solution("alice_rowsum_v1") == build.solution()
    assert trace_set.get_solution("later") is trace_set.solutions[NAME][1]
    assert trace_set.get_solution("nobody") is None


@pytest.mark.parametrize("in_memory", [True, False])
def test_filtering_keeps_what_passed_within_bounds(
    build: Any, tmp_path: Path, in_memory: bool
) -> None:
    traces = [
        build.trace(uuid="good"),
        build.trace(uuid="rough", errors=0.5),
        build.trace(uuid="nan", errors=float("nan")),
        build.trace(uuid="bad", status="TIMEOUT"),
    ]
    trace_set = (
        TraceSet(traces={NAME: traces})
        if in_memory
        else TraceSet.from_path(build.dataset(tmp_path, *traces))
    )

    assert trace_set.filter_traces(NAME) == traces[:1]
    assert trace_set.filter_traces(NAME, atol=1, rtol=1) == traces[:2]
    assert trace_set.filter_traces("nothing") == []


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_best_trace_is_the_fastest_within_bounds(
    build: Any, tmp_path: Path, in_memory: bool
) -> None:
    interpreted = build.trace(speedup=99, provenance=build.provenance(interpreted=True))
    traces = [
        build.trace(speedup=2, rows=1),
        build.trace(speedup=3, rows=2),
        build.trace(speedup=9, errors=300.0),
        build.trace(speedup=None, rows=4),
        build.trace(status="TIMEOUT"),
        interpreted,
    ]
    trace_set = (
        TraceSet(traces={NAME: traces})
        if in_memory
        else TraceSet.from_path(build.dataset(tmp_path, *traces))
    )

    assert trace_set.get_best_trace(NAME) == traces[1]
    assert trace_set.get_best_trace(NAME, axes={"rows": 1}) == traces[0]
    assert trace_set.get_best_trace(NAME, {"rows": 4}) == traces[3]
    assert trace_set.get_best_trace(NAME, max_abs_error=None, max_rel_error=None) == traces[2]
    assert trace_set.get_best_trace(NAME, max_abs_error=None) == traces[1]
    assert trace_set.get_best_trace(NAME, {"rows": 7}) is None
    assert trace_set.get_best_trace("nothing") is None


@pytest.mark.parametrize("is_parsed", [True, False])
def test_rows_say_what_reports_need(build: Any, tmp_path: Path, is_parsed: bool) -> None:
    trace = build.trace(notes=[{"code": "a", "evidence": "b"}], provenance=build.provenance())
    failed = Trace.model_validate(
        build.trace(status="INCORRECT_NUMERICAL", errors=float("nan")).to_dict()
        | {"solution": "gone"}
    )
    violations = {"violations": [{"code": "c", "evidence": "d"}]}
    content = failed.to_dict()
    content["evaluation"]["correctness"]["extra"] = violations
    root = build.dataset(tmp_path, trace, Trace.model_validate(content))
    trace_set = TraceSet.from_path(root)
    if is_parsed:
        trace_set.traces.values()

    passed, wrong = trace_set.rows(NAME)

    assert (passed.solution, passed.author, passed.language) == (
        "alice_rowsum_v1",
        "alice",
        "python",
    )
    assert (passed.workload_uuid, passed.axes, passed.hardware) == ("w1", {"rows": 128}, "H100")
    assert (passed.is_passed, passed.latency_ms, passed.speedup) == (True, 1.0, 2.0)
    assert (passed.reference_latency_ms, passed.speedup_interval) == (None, None)
    assert (passed.solution_hash, passed.config_hash, passed.note_count) == ("v1-aa", "cc", 1)
    assert (passed.trace_id, passed.run_id, passed.interpreted) == ("t1", "r1", False)
    assert (wrong.author, wrong.status) == (None, "INCORRECT_NUMERICAL")
    assert (wrong.violation_count, wrong.latency_ms) == (1, None)
    assert wrong.max_relative_error != wrong.max_relative_error


def test_rows_read_the_flat_form(build: Any, tmp_path: Path) -> None:
    line = json.loads(build.trace_line)
    line["evaluation"] = {"status": "TIMEOUT", "hardware": "cpu", "timestamp": "t"}
    build.write(tmp_path / TRACES, f"{json.dumps(line)}\n{build.trace_line}\n")

    rows = list(TraceSet.from_path(tmp_path).rows())

    assert [(row.status, row.hardware) for row in rows] == [
        ("TIMEOUT", "cpu"),
        ("PASSED", "NVIDIA H100 80GB HBM3"),
    ]


def test_a_trace_without_evaluation_has_no_row(build: Any, tmp_path: Path) -> None:
    unfinished = build.trace().model_copy(update={"evaluation": None})
    trace_set = TraceSet.from_path(build.dataset(tmp_path, unfinished, build.trace(speedup=4)))

    assert len(list(trace_set.rows())) == 1
    assert trace_set.get_best_trace(NAME) == build.trace(speedup=4)
    assert len(trace_set.traces[NAME]) == 2


def test_added_traces_are_in_memory_and_on_disk(build: Any, root: Path) -> None:
    trace_set = TraceSet.from_path(root)
    baseline = build.trace("reference_rowsum")

    trace_set.add_traces([build.trace(), baseline])

    assert trace_set.traces[NAME] == [build.trace(), baseline]
    again = TraceSet.from_path(root)
    assert sorted(each.to_json() for each in again.traces[NAME]) == sorted(
        each.to_json() for each in (build.trace(), baseline)
    )
    assert (root / TRACES).read_text(encoding="utf-8") == build.trace().to_json() + "\n"
    assert (root / TRACES.replace("alice", "baseline")).exists()


def bad_traces(build: Any) -> list[Trace]:
    return [
        build.trace("nobody"),
        build.trace(definition="nothing"),
        build.trace(None),
        build.trace().model_copy(update={"evaluation": None}),
    ]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("on_disk", [True, False])
def test_one_bad_trace_keeps_all_out(build: Any, root: Path, index: int, on_disk: bool) -> None:
    trace_set = TraceSet.from_path(root)
    if not on_disk:
        trace_set = TraceSet(definitions=trace_set.definitions, solutions=trace_set.solutions)

    with pytest.raises(ValueError, match=r".+"):
        trace_set.add_traces([build.trace(), bad_traces(build)[index]])

    assert trace_set.traces == {}
    assert not (root / "traces").exists()


def test_a_misspelt_name_is_corrected(build: Any, root: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'alice_rowsum_v1'"):
        TraceSet.from_path(root).add_traces([build.trace("alice_rowsum_v2")])


def test_a_trace_that_cannot_be_written_is_not_in_memory(build: Any, root: Path) -> None:
    trace_set = TraceSet.from_path(root)
    build.write(root / "traces", "in the way")

    for add in (trace_set.append, lambda trace: trace_set.add_traces([trace])):
        with pytest.raises(OSError, match="alice"):
            add(build.trace())

    assert trace_set.traces == {}


def test_added_workloads_are_in_memory_and_on_disk(build: Any, root: Path) -> None:
    trace_set = TraceSet.from_path(root)

    trace_set.add_workload_traces([build.trace(None, uuid="w7")])

    assert [each.workload.uuid for each in trace_set.workloads[NAME]][1:] == ["w7"]
    assert TraceSet.from_path(root).workloads == trace_set.workloads


@pytest.mark.parametrize("index", [0, 1, 2])
def test_one_bad_workload_keeps_all_out(build: Any, root: Path, index: int) -> None:
    bad = [build.trace(), build.trace(None, definition="nothing"), bad_traces(build)[3]][index]
    trace_set = TraceSet.from_path(root)

    with pytest.raises(ValueError, match=r".+"):
        trace_set.add_workload_traces([build.trace(None), bad])

    assert len(trace_set.workloads[NAME]) == 1


def test_a_set_in_memory_takes_everything_without_a_disk(build: Any) -> None:
    trace_set = TraceSet(
        definitions={NAME: build.definition()}, solutions={NAME: [build.solution()]}
    )

    trace_set.append(build.trace(), samples={"solution": [1.0]})
    trace_set.add_traces([build.trace()])
    trace_set.add_workload_traces([build.trace(None)])
    trace_set.backup_traces()

    assert len(trace_set.traces[NAME]) == 2
    assert len(trace_set.workloads[NAME]) == 1
    for use in (
        lambda: trace_set.traces_path,
        lambda: trace_set.add_workload_blob_tensor(NAME, "w1", {}),
        lambda: trace_set.get_workload_blob_tensor("blob/a"),
    ):
        with pytest.raises(ValueError, match="no root"):
            use()


def test_appending_writes_samples_beside_the_trace(build: Any, root: Path) -> None:
    trace_set = TraceSet.from_path(root)
    first = build.trace(provenance=build.provenance(trace_id="t1"))
    second = build.trace(provenance=build.provenance(trace_id="t2"))

    trace_set.append(first, samples={"solution": [1.0, 2.0], "reference": [3]})
    trace_set.append(second)

    again = TraceSet.from_path(root)
    assert again.traces[NAME] == [first, second]
    assert again.samples_of(first) == {"solution": [1.0, 2.0], "reference": [3.0]}
    assert again.samples_of(second) is None
    assert again.samples_of(build.trace()) is None
    sidecar = root / TRACES.replace(".jsonl", ".samples.ndjson")
    assert json.loads(sidecar.read_text(encoding="utf-8")) == {
        "trace_id": "t1",
        "solution_ms": [1.0, 2.0],
        "reference_ms": [3],
    }


def test_samples_need_a_trace_with_an_id(build: Any, root: Path) -> None:
    with pytest.raises(ValueError, match="trace_id"):
        TraceSet.from_path(root).append(build.trace(), samples={"solution": [1.0]})


def test_appending_does_not_parse_what_was_loaded(build: Any, tmp_path: Path) -> None:
    root = build.dataset(tmp_path)
    build.write(root / TRACES, build.trace_line.replace("0.0061", "-1") + "\n")
    trace_set = TraceSet.from_path(root)

    trace_set.append(build.trace(speedup=9))

    with pytest.raises(DatasetError, match="latency_ms"):
        trace_set.traces[NAME]


def test_appended_traces_count_before_and_after_parsing(build: Any, tmp_path: Path) -> None:
    trace_set = TraceSet.from_path(build.dataset(tmp_path, build.trace(speedup=2)))

    trace_set.append(build.trace(speedup=9))

    assert [row.speedup for row in trace_set.rows(NAME)] == [2, 9]
    assert trace_set.get_best_trace(NAME) == build.trace(speedup=9)
    assert [row.speedup for row in trace_set.rows(NAME)] == [2, 9]
    assert trace_set.traces[NAME] == [build.trace(speedup=2), build.trace(speedup=9)]


def test_a_solution_that_is_not_in_the_dataset_needs_its_author(build: Any, root: Path) -> None:
    trace_set = TraceSet.from_path(root)

    with pytest.raises(UnknownNameError):
        trace_set.append(build.trace("draft"))
    trace_set.append(build.trace("draft"), author="bob")

    assert (root / TRACES.replace("alice", "bob")).exists()
    assert trace_set.traces[NAME] == [build.trace("draft")]


def test_a_backup_moves_traces_aside_and_keeps_memory(build: Any, tmp_path: Path) -> None:
    root = build.dataset(tmp_path / "d", build.trace())
    trace_set = TraceSet.from_path(root)

    trace_set.backup_traces()
    (root / "traces").rmdir()
    build.dataset(root, build.trace())
    trace_set.backup_traces()

    assert len(list(root.glob("traces_bak_*/alice"))) == 2
    assert list((root / "traces").iterdir()) == []
    assert trace_set.traces[NAME] == [build.trace()]


def test_paths_lie_under_the_root(root: Path) -> None:
    trace_set = TraceSet.from_path(root)

    assert trace_set.definitions_path == root / "definitions"
    assert trace_set.solutions_path == root / "solutions"
    assert trace_set.workloads_path == root / "workloads"
    assert trace_set.traces_path == root / "traces"
    assert trace_set.blob_path == root / "blob"
    assert trace_set.blob_workloads_path == root / "blob" / "workloads"


@pytest.mark.parametrize("name", ["../evil", "a/b", "..", "a\\b", "a\0b"])
def test_a_name_that_is_no_file_name_is_refused(build: Any, tmp_path: Path, name: str) -> None:
    layout = Layout(tmp_path)

    for path in (
        lambda: layout.definition_file(build.definition(name)),
        lambda: layout.solution_file(build.solution(name), "reduce"),
        lambda: layout.trace_file(name, build.definition()),
    ):
        with pytest.raises(ValueError, match="cannot be a file"):
            path()


def test_a_quiet_dataset_loads_without_warnings(build: Any, tmp_path: Path) -> None:
    build.dataset(tmp_path, build.trace())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TraceSet.from_path(tmp_path).traces.values()


def test_samples_of_several_traces_are_found_by_their_ids(build: Any, tmp_path: Path) -> None:
    trace_set = TraceSet.from_path(build.dataset(tmp_path))
    for trace_id in ("t1", "t2", "t3"):
        trace = build.trace(provenance=build.provenance(trace_id=trace_id))
        trace_set.append(trace, samples={"solution": [1.0, 2.0], "reference": [3.0]})

    found = trace_set.samples_by_trace_id("scaled_rowsum_n256", ["t1", "t3", "unknown"])

    assert found == {name: {"solution": [1.0, 2.0], "reference": [3.0]} for name in ("t1", "t3")}
