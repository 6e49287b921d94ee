"""Small datasets in memory: solutions in Python, traces by hand."""

from __future__ import annotations

from typing import Any

from flashinfer_bench.data import Definition, Solution, Trace, TraceSet
from flashinfer_bench.tensors.machine import processor_name

HERE = processor_name()
ADD = "def run(A, B):\n    return A.add(B)\n"


def definition(name: str = "add", **changes: Any) -> Definition:
    """Sum of two matrices of M rows and four columns."""
    matrix = {"shape": ["M", "N"], "dtype": "float32"}
    return Definition.model_validate(
        {
            "name": name,
            "op_type": "elementwise",
            "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 4}},
            "inputs": {"A": matrix, "B": matrix},
            "outputs": {"C": matrix},
            "reference": ADD,
            **changes,
        }
    )


def solution(
    name: str, source: str, *, into: bool = False, of: str = "add", **spec: Any
) -> Solution:
    """A solution in Python; `into`: it takes its outputs."""
    return Solution.model_validate(
        {
            "name": name,
            "definition": of,
            "author": "tester",
            "spec": {
                "language": "python",
                "target_hardware": ["cpu"],
                "entry_point": "main.py::run",
                "destination_passing_style": into,
                **spec,
            },
            "sources": [{"path": "main.py", "content": source}],
        }
    )


def marked(name: str, mark: float, *, of: str = "add") -> Solution:
    """A solution whose answers show which one it was: everywhere `mark`."""
    source = f"import torch\n\ndef run(A, B):\n    return torch.full_like(A, {mark})\n"
    return solution(name, source, of=of)


def trace(
    solution: str | Solution,
    axes: dict[str, int],
    speedup: float = 2.0,
    *,
    status: str = "PASSED",
    hardware: str = HERE,
    of: str = "add",
    errors: tuple[float, float] = (0.0, 0.0),
    notes: tuple[str, ...] = (),
    interpreted: bool = False,
    solution_hash: str = "",
) -> Trace:
    """A trace of a solution on sizes; the reference takes one millisecond."""
    name = solution if isinstance(solution, str) else solution.name
    uuid = "-".join(f"{axis}{length}" for axis, length in axes.items()) or "only"
    evaluation: dict[str, Any] = {
        "status": status,
        "environment": {"hardware": hardware},
        "timestamp": "2026-01-01T00:00:00+00:00",
        "notes": [{"code": code, "evidence": "seen"} for code in notes],
    }
    if status == "PASSED":
        absolute, relative = errors
        evaluation["correctness"] = {
            "max_absolute_error": absolute,
            "max_relative_error": relative,
        }
        evaluation["performance"] = {
            "latency_ms": 1.0 / speedup,
            "reference_latency_ms": 1.0,
            "speedup_factor": speedup,
        }
    if solution_hash or interpreted:
        evaluation["provenance"] = {
            "trace_id": "0" * 16,
            "solution_hash": solution_hash or "unknown",
            "config_hash": "0" * 16,
            "seed": "0" * 16,
            "seed_given": False,
            "run": {"id": "run"},
            "sandbox": "process",
            "interpreted": interpreted,
        }
    workload = {"axes": axes, "inputs": {}, "uuid": uuid}
    return Trace.model_validate(
        {"definition": of, "workload": workload, "solution": name, "evaluation": evaluation}
    )


def dataset(
    solutions: list[Solution], traces: list[Trace], definitions: list[Definition] | None = None
) -> TraceSet:
    """A dataset in memory."""
    known = {each.name: each for each in definitions or [definition()]}
    by_definition: dict[str, list[Solution]] = {}
    for each in solutions:
        by_definition.setdefault(each.definition, []).append(each)
    traces_by_definition: dict[str, list[Trace]] = {}
    for trace in traces:
        traces_by_definition.setdefault(trace.definition, []).append(trace)
    return TraceSet(None, known, by_definition, {}, traces_by_definition)
