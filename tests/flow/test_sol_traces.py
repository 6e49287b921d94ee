"""SOL-ExecBench's results: they come in as traces that say where they come from, and ours go out as theirs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import EvaluationStatus, Trace, TraceSet

DEFINITION: dict[str, Any] = {
    "name": "double",
    "axes": {"n": {"type": "var"}, "k": {"type": "const", "value": 4}},
    "inputs": {"x": {"shape": ["n", "k"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["n", "k"], "dtype": "float32"}},
    "reference": "def run(x):\n    return 2 * x\n",
}
WORKLOAD: dict[str, Any] = {
    "uuid": "w1",
    "axes": {"n": 8},
    "inputs": {"x": {"type": "random"}},
    "tolerance": {"max_atol": 1e-05, "max_rtol": 0.05},
}
SOLUTION: dict[str, Any] = {
    "name": "double_v1",
    "definition": "double",
    "author": "somebody",
    "spec": {
        "languages": ["pytorch"],
        "target_hardware": ["LOCAL"],
        "entry_point": "main.py::run",
        "destination_passing_style": False,
    },
    "sources": [{"path": "main.py", "content": "def run(x):\n    return x + x\n"}],
}
CORRECT: dict[str, Any] = {
    "max_relative_error": 0.25,
    "max_absolute_error": 0.5,
    "has_nan": False,
    "has_inf": False,
    "extra": None,
}
TIMES: dict[str, Any] = {
    "latency_ms": 0.01,
    "reference_latency_ms": 0.04,
    "speedup_factor": 4.0,
}
TRACE: dict[str, Any] = {
    "definition": "double",
    "workload": {
        "axes": {"n": 8},
        "inputs": {"x": {"type": "random"}},
        "uuid": "w1",
        "tolerance": {
            "max_atol": 1e-05,
            "max_rtol": 0.05,
            "required_matched_ratio": 0.99,
            "max_error_cap": None,
            "allow_negative_inf": False,
        },
    },
    "solution": "double_v1",
    "evaluation": {
        "status": "PASSED",
        "environment": {
            "hardware": "NVIDIA B200",
            "libs": {"torch": "2.9.0+cu130", "cuda": "13.0"},
        },
        "timestamp": "2026-09-06T18:02:51.904545",
        "log": "",
        "correctness": CORRECT,
        "performance": TIMES,
    },
}
"""A result with every key, as their command writes it."""


def evaluated(status: str, **parts: object) -> dict[str, Any]:
    """Give a result of another status; parts that are not named are null."""
    empty = {"correctness": None, "performance": None}
    return TRACE | {"evaluation": TRACE["evaluation"] | {"status": status} | empty | parts}


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    folder = tmp_path / "problems" / "L1" / "double"
    folder.mkdir(parents=True)
    (folder / "definition.json").write_text(json.dumps(DEFINITION))
    (folder / "workload.jsonl").write_text(json.dumps(WORKLOAD))
    (folder / "solution.json").write_text(json.dumps(SOLUTION))
    return folder


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def bring(problem: Path, tmp_path: Path, *more: object) -> tuple[dict[str, Any], list[Trace]]:
    """Import; give the summary and the traces that were written."""
    out = tmp_path / "out"
    done = call("import", "sol-execbench", problem.parents[1], "--output", out, "--json", *more)
    assert done.exit_code == 0, done.stderr
    summary = json.loads(done.stdout)["import"]
    traces = list(TraceSet.from_path(out).traces.get("double", []))
    assert len(traces) == summary["traces"]
    return summary, traces


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": ' * 100_000, "[{", "\ufeff[]"])
def test_a_file_of_results_that_is_none_is_left_out_and_named(
    problem: Path, tmp_path: Path, content: str
) -> None:
    (problem / "traces.json").write_text(content)

    summary, _ = bring(problem, tmp_path)

    (left,) = summary["left_out"]
    assert "not JSON: " in left["reason"]


@pytest.mark.parametrize(("name", "as_array"), [("traces.json", True), ("traces.jsonl", False)])
def test_results_beside_a_problem_become_traces_that_say_where_they_come_from(
    problem: Path, tmp_path: Path, name: str, as_array: bool
) -> None:
    lines = json.dumps([TRACE]) if as_array else json.dumps(TRACE)
    (problem / name).write_text(lines)

    summary, (trace,) = bring(problem, tmp_path)

    here = trace.evaluation
    assert here is not None
    assert here.performance is not None
    assert summary["left_out"] == []
    assert (trace.solution, trace.workload.uuid, here.status) == ("double_v1", "w1", "PASSED")
    assert here.environment.hardware == "NVIDIA B200"
    assert here.performance.speedup_factor == 4.0
    assert here.provenance is None
    assert [(each.code, each.evidence[:32]) for each in here.notes] == [
        ("sol_execbench", "measured and judged by SOL-ExecB")
    ]


def test_results_that_are_named_bring_the_solutions_beside_them(
    problem: Path, tmp_path: Path
) -> None:
    (problem / "solution.json").unlink()
    results = tmp_path / "results" / "L1" / "double"
    results.mkdir(parents=True)
    (results / "solution.json").write_text(json.dumps(SOLUTION))
    (results / "traces.json").write_text(json.dumps([TRACE]))
    lone = tmp_path / "trial-1.jsonl"
    lone.write_text(json.dumps(TRACE))

    more = ("--traces", tmp_path / "results", "--traces", lone)
    summary, traces = bring(problem, tmp_path, *more)

    assert summary["left_out"] == []
    assert summary["solutions"] == ["double_v1"]
    assert len(traces) == 2


def test_a_result_that_is_named_and_lies_beside_its_problem_comes_once(
    problem: Path, tmp_path: Path
) -> None:
    (problem / "traces.json").write_text(json.dumps([TRACE]))
    copy = tmp_path / "copy.jsonl"
    copy.write_text(json.dumps(TRACE))

    more = ("--traces", problem, "--traces", problem / "traces.json", "--traces", copy)
    summary, traces = bring(problem, tmp_path, *more)

    assert (summary["traces"], summary["left_out"], len(traces)) == (1, [], 1)


def test_a_file_of_results_that_is_named_twice_is_read_once(problem: Path, tmp_path: Path) -> None:
    lone = tmp_path / "trial.jsonl"
    lone.write_text(json.dumps(TRACE))

    _, traces = bring(
        problem, tmp_path, "--traces", lone, "--traces", problem / "../../../trial.jsonl"
    )

    assert len(traces) == 1


@pytest.mark.parametrize(
    ("result", "status", "notes"),
    [
        (evaluated("RUNTIME_ERROR"), "RUNTIME_ERROR", ["sol_execbench"]),
        (evaluated("TIMEOUT"), "TIMEOUT", ["sol_execbench"]),
        (evaluated("REWARD_HACK"), "RUNTIME_ERROR", ["sol_execbench", "reward_hack"]),
    ],
)
def test_a_status_that_there_is_none_for_here_is_in_a_note(
    problem: Path, tmp_path: Path, result: dict[str, Any], status: str, notes: list[str]
) -> None:
    (problem / "traces.jsonl").write_text(json.dumps(result))

    _, (trace,) = bring(problem, tmp_path)

    assert trace.evaluation is not None
    assert trace.evaluation.status == status
    assert [each.code for each in trace.evaluation.notes] == notes


@pytest.mark.parametrize(("key", "largest"), [("has_nan", math.nan), ("has_inf", math.inf)])
def test_what_is_not_finite_there_is_an_error_that_is_not_finite_here(
    problem: Path, tmp_path: Path, key: str, largest: float
) -> None:
    errors = CORRECT | {"max_relative_error": 0.0, "max_absolute_error": 0.0, key: True}
    result = evaluated("INCORRECT_NUMERICAL", correctness=errors)
    (problem / "traces.jsonl").write_text(json.dumps(result))

    _, (trace,) = bring(problem, tmp_path)

    assert trace.evaluation is not None
    assert trace.evaluation.correctness is not None
    assert str(trace.evaluation.correctness.max_absolute_error) == str(largest)


def test_a_reference_that_was_not_timed_there_has_no_time_here(
    problem: Path, tmp_path: Path
) -> None:
    times = {"latency_ms": 0.01, "reference_latency_ms": 0.0, "speedup_factor": 0.0}
    result = evaluated("PASSED", correctness=CORRECT, performance=times)
    (problem / "traces.jsonl").write_text(json.dumps(result))

    _, (trace,) = bring(problem, tmp_path)

    assert trace.evaluation is not None
    assert trace.evaluation.performance is not None
    assert trace.evaluation.performance.to_dict() == {"latency_ms": 0.01}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (TRACE | {"solution": "other"}, "no solution 'other' was brought"),
        (TRACE | {"workload": TRACE["workload"] | {"uuid": "w9"}}, "none that was brought"),
        (TRACE | {"workload": TRACE["workload"] | {"axes": {"n": 9}}}, "has other axes"),
        (TRACE | {"workload": TRACE["workload"] | {"tolerance": {}}}, "another tolerance"),
        (evaluated("INVALID_REFERENCE"), "its reference failed there"),
        (evaluated("PASSED"), "correctness is required with status PASSED"),
        (evaluated("FASTEST"), "FASTEST"),
        (TRACE | {"evaluation": None}, "says nothing of how it went"),
    ],
)
def test_a_result_that_cannot_be_kept_is_named(
    problem: Path, tmp_path: Path, result: dict[str, Any], words: str
) -> None:
    (problem / "traces.jsonl").write_text(f"{json.dumps(TRACE)}\n{json.dumps(result)}\n")

    summary, traces = bring(problem, tmp_path)

    (left,) = summary["left_out"]
    assert (left["kind"], left["name"]) == ("trace", "traces.jsonl")
    assert "traces.jsonl:2:" in left["reason"]
    assert words in left["reason"]
    assert len(traces) == 1


def test_a_bare_workload_is_no_result(problem: Path, tmp_path: Path) -> None:
    bare = {"definition": "double", "workload": WORKLOAD}
    (problem / "traces.jsonl").write_text(json.dumps(bare))

    summary, _ = bring(problem, tmp_path)

    assert (summary["traces"], summary["left_out"]) == (0, [])


def test_results_of_a_problem_that_is_not_there_are_named(problem: Path, tmp_path: Path) -> None:
    results = tmp_path / "trial.jsonl"
    results.write_text(json.dumps(TRACE | {"definition": "triple"}))

    summary, _ = bring(problem, tmp_path, "--traces", results)

    (left,) = summary["left_out"]
    assert (left["problem"], left["kind"]) == ("triple", "trace")
    assert "no problem of this name was brought" in left["reason"]


@pytest.mark.parametrize("name", ["none", "empty"])
def test_a_path_without_results_is_a_users_mistake(
    problem: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "empty").mkdir()

    done = call(
        *("import", "sol-execbench", problem.parents[1], "--output", tmp_path / "out"),
        *("--traces", tmp_path / name),
    )

    assert done.exit_code == 2
    assert str(tmp_path / name) in done.stderr
    assert not (tmp_path / "out").exists()


RESULTS = [
    TRACE,
    evaluated("PASSED", correctness=CORRECT, performance=TIMES | {"reference_latency_ms": 0.0}),
    evaluated("INCORRECT_NUMERICAL", correctness=CORRECT),
    evaluated("INCORRECT_NUMERICAL", correctness=CORRECT | {"has_nan": True}),
    evaluated("INCORRECT_SHAPE"),
    evaluated("COMPILE_ERROR"),
    evaluated("REWARD_HACK", log="a function was replaced"),
]


def without_errors(result: dict[str, Any]) -> dict[str, Any]:
    """Set the errors to 0 where an output was not finite, as they write it."""
    errors = (result["evaluation"]["correctness"] or {}) | {}
    if not errors.get("has_nan"):
        return result
    zero = errors | {"max_relative_error": 0.0, "max_absolute_error": 0.0}
    return result | {"evaluation": result["evaluation"] | {"correctness": zero}}


def test_results_go_out_with_every_key_as_they_came_in(problem: Path, tmp_path: Path) -> None:
    (problem / "traces.jsonl").write_text("\n".join(map(json.dumps, RESULTS)))
    bring(problem, tmp_path)

    done = call(
        "export", "sol-execbench", "--local", tmp_path / "out", "--output", tmp_path / "back"
    )

    lines = (tmp_path / "back" / "L1" / "double" / "traces.jsonl").read_text().splitlines()
    assert done.exit_code == 0, done.stderr
    assert f"{len(RESULTS)} traces" in done.stdout
    assert list(map(json.loads, lines)) == list(map(without_errors, RESULTS))


def test_traces_from_here_survive_there_and_back(problem: Path, tmp_path: Path) -> None:
    (problem / "traces.jsonl").write_text(json.dumps(TRACE))
    _, (trace,) = bring(problem, tmp_path)
    ours = trace.model_copy(
        update={"evaluation": trace.evaluation.model_copy(update={"notes": []})}
        if trace.evaluation
        else {}
    )
    dataset = TraceSet.from_path(tmp_path / "out")
    dataset.backup_traces()
    dataset = TraceSet.from_path(tmp_path / "out")
    dataset.add_traces([ours])
    call("export", "sol-execbench", "--local", tmp_path / "out", "--output", tmp_path / "sol")

    call("import", "sol-execbench", tmp_path / "sol", "--output", tmp_path / "again")

    (back,) = TraceSet.from_path(tmp_path / "again").traces["double"]
    assert back == trace
    assert back.evaluation is not None
    assert back.evaluation.status is EvaluationStatus.PASSED


def test_an_interpreted_kernels_times_are_not_written(problem: Path, tmp_path: Path) -> None:
    (problem / "traces.jsonl").write_text(json.dumps(TRACE))
    bring(problem, tmp_path)
    (file,) = (tmp_path / "out" / "traces").rglob("*.jsonl")
    line = json.loads(file.read_text())
    line["evaluation"]["provenance"] = {
        "trace_id": "t",
        "solution_hash": "h",
        "config_hash": "c",
        "seed": "0" * 16,
        "seed_given": False,
        "run": {"id": "r"},
        "sandbox": "process",
        "interpreted": True,
    }
    file.write_text(f"{json.dumps(line)}\n")

    done = call(
        "export", "sol-execbench", "--local", tmp_path / "out", "--output", tmp_path / "sol"
    )

    assert "trace double_v1 on w1, was left out: its kernel was interpreted" in done.stderr
    assert not list((tmp_path / "sol").rglob("traces.jsonl"))
