"""Kernels that leave work out, tried on the workloads of a decomposition's dataset.

A workload on which one passes gets inputs on which it fails, or is marked with what passes there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.data.distributions import Boolean, Integers, Normal, Uniform
from flashinfer_bench.data.workload import RandomInput, uuid_of
from flashinfer_bench.decompose.verify.executed import named
from flashinfer_bench.decompose.verify.files import tensors
from flashinfer_bench.decompose.verify.findings import StageResult
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.data import Definition, Workload
    from flashinfer_bench.data.distributions import Distribution
    from flashinfer_bench.data.workload import InputSpec
    from flashinfer_bench.decompose.verify.findings import Violation
    from flashinfer_bench.tensors.planned import InputPlan

    Run = Callable[..., Any]

_MOST_BYTES = 1 << 30
"""Of the inputs of a workload: a larger one is left out, and counted."""
_FEW = 4
"""Different integers: each occurs often, so that what is done with one of them shows."""
_SPREADS = ((0.0, 4.0), (1.0, 1.0), (1.0, 4.0), (0.0, 16.0), (1.0, 16.0), (0.0, 256.0))
"""By how many of its new standard deviations an input's mean is moved, and how many times as wide it becomes."""
_TILES = 16
"""Parts of an output's longest axis, of which a wrong kernel leaves out the last."""


class WrongKernels:
    """Tries them on the workloads of definitions, and counts those that are refused."""

    def __init__(self, roots: Sequence[str], *, may_change: bool = False) -> None:
        self._roots = roots
        self._may_change = may_change
        self._kernels: Counter[str] = Counter()
        self._workloads: Counter[str] = Counter()
        self._left_out: list[str] = []

    @property
    def result(self) -> StageResult:
        """Say how many wrong kernels were refused, what became of workloads, and which were not tried."""
        executed = {"wrong kernels": dict(self._kernels), "workloads": dict(self._workloads)}
        notes = named("no wrong kernel tried on a workload of", list(dict.fromkeys(self._left_out)))
        return StageResult(notes=notes, executed=executed)

    def tried(
        self, definition: Definition, workload: Workload, run: Run, *, has_smaller: bool = False
    ) -> tuple[Workload, list[Violation]]:
        """Try them on a workload: give it as it should be, and a finding for each that passes even so.

        `has_smaller`: whether a workload for a CPU stands beside those that are not.
        """
        task = _Task(definition, workload, self._roots, run)
        if workload.size_class == "full" or task.input_bytes > _MOST_BYTES:
            if has_smaller and workload.size_class == "full":
                self._workloads["left to a smaller one"] += 1
            else:
                self._workloads["too large"] += 1
                self._left_out.append(f"{definition.name} (too large)")
            return workload, []
        try:
            tally = task.tally()
        except Exception:  # noqa: BLE001  # as on meta: an operation may not run on a CPU
            self._workloads["not run"] += 1
            self._left_out.append(f"{definition.name} (does not run here)")
            return workload, []
        if tally.passing and self._may_change:
            workload, tally = _strengthened(task, tally)
            workload = workload.model_copy(update={"weak": tally.said})
        if workload.inputs != task.workload.inputs:
            self._workloads["changed"] += 1
        if tally.passing:
            self._workloads["marked" if workload.weak else "weak"] += 1
        self._kernels["refused"] += tally.refused
        self._kernels["pass"] += len(tally.passing)
        return workload, [_weak(definition, workload, said) for said in tally.said]


def _weak(definition: Definition, workload: Workload, said: str) -> Violation:
    axes = ", ".join(f"{name} = {size}" for name, size in workload.axes.items())
    where = f"on the workload with {axes}" if axes else "on its workload"
    message = f"{where} a kernel passes that {said}"
    label = f"dataset: {definition.name}"
    return found("FILE-weak", label, message, severity="warning", node=definition.name)


@dataclass(frozen=True)
class _Tally:
    """How wrong kernels fared on a workload."""

    refused: int
    passing: tuple[str, ...]
    """What each that passes does."""

    @property
    def said(self) -> list[str]:
        """What those do that pass, each once."""
        return list(dict.fromkeys(self.passing))


@dataclass(frozen=True)
class _Task:
    """A definition with a workload, to be run here."""

    definition: Definition
    workload: Workload
    roots: Sequence[str]
    run: Run

    @cached_property
    def _plans(self) -> tuple[InputPlan, ...]:
        from flashinfer_bench.tensors.planned import plan_inputs  # noqa: PLC0415  # where there is a dataset

        return plan_inputs(self.definition, self.workload)

    @property
    def input_bytes(self) -> int:
        """Size of all inputs."""
        return sum(plan.tensor.size_bytes for plan in self._plans)

    @cached_property
    def given(self) -> list[Any]:
        """The inputs, made as a benchmark makes them."""
        from flashinfer_bench.tensors.blobs import load_files  # noqa: PLC0415  # where there is a dataset
        from flashinfer_bench.tensors.generate import InputMaker  # noqa: PLC0415

        files = load_files(self._plans, self.roots)
        maker = InputMaker(self._plans, torch.device("cpu"), files=files)
        maker.open_trial(0)
        return list(maker.prepare(0, 1)[0])

    @cached_property
    def expected(self) -> list[torch.Tensor]:
        """What the reference makes of them."""
        return self.called(self.given)

    def called(self, given: Sequence[Any]) -> list[torch.Tensor]:
        """Run the reference on copies of these inputs."""
        copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in given]
        with torch.no_grad():
            return [each.clone() for each in tensors(self.run(*copies))]

    def passes(self, got: list[torch.Tensor]) -> bool:
        """Tell whether the judge of the definition takes these outputs for right."""
        from flashinfer_bench.bench.run_settings import known_settings  # noqa: PLC0415  # where there is a dataset
        from flashinfer_bench.judging.case import JudgedCall, Tolerance  # noqa: PLC0415
        from flashinfer_bench.judging.judges import judge_for  # noqa: PLC0415

        same = [(each.shape, each.dtype) for each in got]
        if same != [(each.shape, each.dtype) for each in self.expected]:
            return False
        known = known_settings()
        own = self.workload.tolerance
        rtol = own.rtol if own is not None and own.rtol else known["rtol"].default
        case = judge_for(self.definition).open_case(Tolerance(rtol, known["atol"].default))
        return case.hear(JudgedCall(self.given, got, self.expected)).is_accepted

    def tally(self) -> _Tally:
        """Try all wrong kernels."""
        passing, refused = [], 0
        for said, make in _wrong(self):
            try:
                is_passed = self.passes(make())
            except (RuntimeError, IndexError, ValueError, TypeError):  # it does not even run
                is_passed = False
            refused += not is_passed
            passing += [said] if is_passed else []
        return _Tally(refused, tuple(passing))

    def is_tame(self) -> bool:
        """Tell whether right answers pass: outputs are finite, and those computed in double precision pass."""
        if not all(
            bool(each.isfinite().all()) for each in self.expected if each.is_floating_point()
        ):
            return False
        double = [
            each.double() if isinstance(each, torch.Tensor) and each.is_floating_point() else each
            for each in self.given
        ]
        try:
            exact = self.called(double)
            return self.passes([a.to(b.dtype) for a, b in zip(exact, self.expected, strict=True)])
        except (RuntimeError, ValueError, TypeError):
            return False


def _wrong(task: _Task) -> Iterator[tuple[str, Callable[[], list[torch.Tensor]]]]:
    """Yield kernels that do less than their work, each with what it does."""
    expected = task.expected
    for at, name in enumerate(task.definition.outputs):
        whole = "zeros" if len(expected) == 1 else f"zeros of {name}"
        yield f"makes {whole}", partial(_with, expected, at, torch.zeros_like)
        if max(expected[at].shape, default=0) > 1:
            yield f"leaves out the end of {name}", partial(_with, expected, at, _without_end)
    for at, (name, value) in enumerate(zip(task.definition.inputs, task.given, strict=True)):
        if not isinstance(value, torch.Tensor) or not value.numel():
            continue
        for fill in (torch.zeros_like, torch.ones_like):
            yield f"ignores {name}", partial(task.called, _with(task.given, at, fill))
        if all(each.shape == value.shape and each.dtype == value.dtype for each in expected):
            yield f"copies {name}", partial(list, [value] * len(expected))


def _with(values: Sequence[Any], at: int, change: Callable[[Any], Any]) -> list[Any]:
    return [change(each) if place == at else each for place, each in enumerate(values)]


def _without_end(output: torch.Tensor) -> torch.Tensor:
    """Give an output whose last tile was never written: a fresh buffer often holds zeros."""
    axis = max(range(output.dim()), key=lambda each: output.shape[each])
    last = -(-output.shape[axis] // _TILES)
    unwritten = output.clone()
    unwritten.narrow(axis, output.shape[axis] - last, last).zero_()
    return unwritten


# -- other inputs ------------------------------------------------------------------------------------------------


def _strengthened(task: _Task, tally: _Tally) -> tuple[Workload, _Tally]:
    """Find inputs on which fewer wrong kernels pass, and right answers still do."""
    best = task.workload, tally
    for inputs in _other_inputs(task):
        uuid = uuid_of(task.definition.name, task.workload.axes, inputs)
        workload = task.workload.model_copy(update={"inputs": inputs, "uuid": uuid})
        other = replace(task, workload=workload)
        try:
            tally = other.tally()
            if len(tally.said) < len(best[1].said) and other.is_tame():
                best = workload, tally
        except Exception:  # noqa: BLE001, S112  # inputs that the reference is not for
            continue
        if not best[1].passing:
            break
    return best


def _other_inputs(task: _Task) -> Iterator[dict[str, InputSpec]]:
    """Propose wider inputs, and such whose mean is elsewhere, the tamest first."""
    seen = [task.workload.inputs]
    for shift, width in _SPREADS:
        inputs = {
            name: _spread(given, shift, width, is_float=_is_float(task.definition, name))
            for name, given in task.workload.inputs.items()
        }
        if inputs not in seen:
            seen.append(inputs)
            yield inputs


def _is_float(definition: Definition, name: str) -> bool:
    return definition.inputs[name].dtype.value in Normal.dtypes


def _spread(given: InputSpec, shift: float, width: float, *, is_float: bool) -> InputSpec:
    """Draw an input with another mean, by so many of its standard deviations, and so many times as wide."""
    if not isinstance(given, RandomInput):
        return given
    declared = given.distribution or (Normal() if is_float else None)
    other: Distribution | None = declared
    match declared:
        case Normal(mean=mean, std=std):
            other = Normal(mean=mean + shift * std * width, std=std * width)
        case Uniform(low=low, high=high) if low > 0 and high > 1:
            other = Uniform(low=low, high=high * width)
        case Integers(low=int() as low, high=int() as high):
            other = Integers(low=low, high=min(high, low + _FEW))
        case Boolean():
            other = Boolean(rate=0.5)
        case _:
            pass
    return given if other == declared else RandomInput(type="random", distribution=other)
