"""A script that plays a recorded job again, alone: the case as JSON, and the sources that play it."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from flashinfer_bench.bench.seeds import subject_of
from flashinfer_bench.judging import Tolerance
from flashinfer_bench.tensors.planned import plan_inputs, plan_outputs, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashinfer_bench.bench.config import ResolvedEvalConfig
    from flashinfer_bench.data import Definition, Evaluation, Solution, Workload
    from flashinfer_bench.tensors.planned import InputPlan

_PACKAGE = "flashinfer_bench"
_ENTRY = "flashinfer_bench.bench.tools.reproduction"
_DATA = "flashinfer_bench.data"
_BUNDLED = {f"{_DATA}.opening", f"{_DATA}.distributions"}
_PLACE = re.compile(r"trial (\d+), call (\d+)")
_IMPORT = re.compile(rf"^(\s*(?:from|import)) {_PACKAGE}\b", re.MULTILINE)
_COUNTS = ("num_trials", "warmup_runs", "iterations")
_TEMPLATE = Path(__file__).with_name("reproducer.tmpl")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a reproducer is made of."""

    definition: Definition
    solution: Solution
    workload: Workload
    config: ResolvedEvalConfig
    recorded: Evaluation
    roots: tuple[str, ...]


def reproducer(subject: Subject, *, failing: tuple[int, int] | None) -> str:
    """Write a script that needs torch, and no dataset unless inputs come from its files.

    Run alone it prints the first mismatch and exits with 1, or exits with 0 when every call is right. The trace must
    have provenance: the key of the inputs stands there.
    """
    modules = (f"SOURCES[{name!r}] = {_literal(source)}" for name, source in _bundle())
    fields = {
        "@TITLE@": _title(subject),
        "@CASE@": _literal(json.dumps(_case(subject, failing), indent=1, ensure_ascii=False)),
        "@SOLUTION@": "\n".join(_commented(subject.solution)),
        "@MODULES@": "\n".join(modules),
    }
    text = _TEMPLATE.read_text(encoding="utf-8")
    return re.sub("|".join(fields), lambda found: fields[found[0]], text)


def failing_call(*logs: str) -> tuple[int, int] | None:
    """Find trial and call that a log says are wrong; the first log that names one counts.

    >>> failing_call("violation failed_audit: trial 0, call 17: right when it was checked first")
    (0, 17)
    """
    for log in logs:
        found = _PLACE.search(log)
        if found is not None:
            return int(found[1]), int(found[2])
    return None


def _title(subject: Subject) -> str:
    axes = ", ".join(f"{name}={value}" for name, value in subject.workload.axes.items())
    return f"{subject.definition.name}, {subject.solution.name} [{axes}]: {subject.recorded.status}"


def _case(subject: Subject, failing: tuple[int, int] | None) -> dict[str, Any]:
    definition, workload, config = subject.definition, subject.workload, subject.config
    evaluation = subject.recorded
    provenance = evaluation.provenance
    assert provenance is not None
    clock = evaluation.performance.clock if evaluation.performance else None
    device = evaluation.environment.device
    return {
        "definition": definition.model_dump(mode="json"),
        "subject": subject_of(definition.name, workload.uuid),
        "key": provenance.seed,
        "failing": failing,
        "inputs": [_input_plan(plan) for plan in plan_inputs(definition, workload)],
        "outputs": [msgspec.to_builtins(plan) for plan in plan_outputs(definition, workload)],
        "roots": list(subject.roots),
        "tolerance": {each.name: getattr(config, each.name) for each in fields(Tolerance)},
        "extra": config.extra,
        "counts": {name: getattr(config, name) for name in _COUNTS}
        | {"calls_per_sample": clock.calls_per_sample if clock else 2},
        "threads": evaluation.environment.threads or 1,
        "device": "cpu" if device is None or device.uuid == "cpu" else "cuda",
        "rewrites_late": provenance.late_inputs,
        "solution": subject.solution.model_dump(mode="json"),
    }


def _input_plan(plan: InputPlan) -> dict[str, Any]:
    drawn = plan.distribution
    named = {
        "kind": type(drawn).__name__,
        "fields": {} if drawn is None else drawn.model_dump(),
    }
    fields: dict[str, Any] = msgspec.to_builtins(plan, enc_hook=written)
    return fields | {"distribution": None if drawn is None else named}


def _commented(solution: Solution) -> Iterator[str]:
    """Show the sources to whoever opens the script; what runs is in the case."""
    for source in solution.sources:
        yield f"# --- {source.path}"
        yield from (f"#   {line}".rstrip() for line in source.content.splitlines())


def _literal(text: str) -> str:
    """Quote text so that it stays readable, where it can be."""
    if "'''" in text or "\\" in text[-1:] or text.endswith("'") or "\r" in text:
        return repr(text)
    return f"r'''{text}'''"


def _bundle() -> list[tuple[str, str]]:
    """Collect the modules that play a job, each after those it imports."""
    found: dict[str, str] = {}
    _collect(_ENTRY, found)
    return [
        (name.removeprefix(f"{_PACKAGE}."), _IMPORT.sub(r"\1 replayed", source))
        for name, source in found.items()
    ]


def _collect(name: str, found: dict[str, str]) -> None:
    source = _source_of(name)
    for needed in _imports(source):
        if needed not in found and needed != name:
            _collect(needed, found)
    found[name] = source


def _imports(source: str) -> Iterator[str]:
    """Name the modules of this package that a source imports when it runs; types alone do not count."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{_PACKAGE}."):
            module = str(node.module)
            is_data = module == _DATA or module.startswith(f"{_DATA}.")
            if is_data and module not in _BUNDLED:  # entities: stand-ins will do
                continue
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if _is_module(inner) else module


def _is_module(name: str) -> bool:
    return _path_of(name).is_file()


def _source_of(name: str) -> str:
    return _path_of(name).read_text(encoding="utf-8")


def _path_of(name: str) -> Path:
    """Find a module's file without importing it: some of them load torch."""
    spec = importlib.util.find_spec(_PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.joinpath(*name.split(".")[1:]).with_suffix(".py")
