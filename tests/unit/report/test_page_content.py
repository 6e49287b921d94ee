from __future__ import annotations

from typing import Any

import pytest

from flashinfer_bench.data import Solution
from flashinfer_bench.data.trace import Environment, Evaluation
from flashinfer_bench.report.page.content import Content, RecordedJob
from flashinfer_bench.report.page.definitions import Definitions
from flashinfer_bench.report.page.solutions import lines
from flashinfer_bench.report.visualize import DefinitionChart, charts

from .rows import row

SOLUTION = Solution.model_validate(
    {
        "name": "a",
        "definition": "d1",
        "author": "alice",
        "spec": {
            "language": "python",
            "target_hardware": ["cpu"],
            "entry_point": "main.py::run",
            "destination_passing_style": False,
        },
        "sources": [{"path": "main.py", "content": "def run(x):\n    return x\n"}],
    }
)
PRESENT = SOLUTION.hash()


def job(**changes: Any) -> RecordedJob:
    found = row(**{"solution_hash": PRESENT, **changes})
    environment = Environment(hardware=found.hardware)
    status = {"status": found.status, "timestamp": found.timestamp, "environment": environment}
    measured = {
        "latency_ms": found.latency_ms,
        "reference_latency_ms": found.reference_latency_ms,
        "speedup_factor": found.speedup,
    }
    passed = {"correctness": {}, "performance": measured} if found.is_passed else {}
    return RecordedJob(found, Evaluation.model_validate({**status, **passed}))


def content(*jobs: RecordedJob) -> Content:
    return Content(
        title="t",
        version="0",
        definitions={},
        solutions={"a": SOLUTION},
        workloads={},
        jobs={"d1": list(jobs)},
        profiles=[],
        samples_of=lambda _, __: {},
    )


def drawn_of(made: Content) -> dict[tuple[str, str], DefinitionChart]:
    return {
        (group.hardware, chart.definition): chart
        for group in charts(made.standing, made.samples_of)
        for chart in group.definitions
    }


EARLY, LATE = "2026-01-01T00:00:00+00:00", "2026-01-03T00:00:00+00:00"


@pytest.mark.parametrize(
    ("left_out", "other", "reason"),
    [
        ({"interpreted": True}, {}, "interpreted"),
        ({"solution_hash": "v1-old"}, {}, "replaced code"),
        ({"solution_hash": "v1-old"}, {"interpreted": True}, None),
        ({"status": "TIMEOUT", "timestamp": EARLY}, {}, "older run"),
        ({"timestamp": EARLY}, {"status": "TIMEOUT"}, "older run"),
        ({"timestamp": LATE}, {"status": "TIMEOUT"}, None),
        ({"latency_ms": 1.0}, {"latency_ms": 2.0}, "older run"),
        ({"task_notes": ("constant_inputs",)}, {"workload_uuid": "w2"}, "weak task"),
        ({}, {"solution": "b", "task_notes": ("constant_inputs",)}, "weak task"),
        ({"latency_ms": 3.0}, {"latency_ms": 2.0, "workload_uuid": "w2"}, None),
    ],
)
def test_why_a_job_counts_nowhere(
    left_out: dict[str, Any], other: dict[str, Any], reason: str | None
) -> None:
    first = job(**left_out)

    found = content(first, job(**other))

    assert found.left_out(first) == reason


def test_a_workload_that_failed_since_counts_as_failed_everywhere() -> None:
    made = content(
        job(speedup=9.0, timestamp=EARLY),
        job(status="TIMEOUT"),
        job(workload_uuid="w2", speedup=2.0),
    )
    drawn = drawn_of(made)

    ((line,),) = (on.solutions for on in Definitions(made).of("d1", drawn))
    (listed,) = lines(made, drawn)

    assert (line.passed, line.attempted, line.speedup) == (1, 2, 2.0)
    assert line.speedup == Definitions(made).best["card", "d1"].speedup
    assert (listed.speedup, listed.passed) == (2.0, 1)


def test_a_definition_names_the_solutions_that_were_not_measured_on_the_hardware() -> None:
    made = content(
        job(solution="there", hardware="other card"),
        job(solution="guessed", interpreted=True),
        job(solution="here"),
    )

    here, _ = Definitions(made).of("d1", drawn_of(made))

    assert (here.hardware, here.interpreted, here.absent) == ("card", ("guessed",), ("a", "there"))


def test_a_definition_names_the_solutions_that_were_run_on_weak_tasks_only() -> None:
    made = content(job(task_notes=("constant_inputs",)), job(solution="b", workload_uuid="w2"))

    (here,) = Definitions(made).of("d1", drawn_of(made))
    where = {line.name: line.where for line in lines(made, {})}

    assert (here.weak, here.absent) == (("a",), ())
    assert where["a"] == "card: weak tasks only"


@pytest.mark.parametrize("name", ["a", "known to traces only"])
def test_a_solution_that_was_only_interpreted_is_not_called_unmeasured(name: str) -> None:
    made = content(job(interpreted=True, solution=name))

    where = {line.name: line.where for line in lines(made, {})}

    assert where[name] == "card: interpreted only"
