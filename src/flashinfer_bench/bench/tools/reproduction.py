"""A recorded job played again in one plain process; the source of every reproducer script.

Nothing here is timed or kept apart: the solution and the reference run side by side, and every call is
judged. A reproducer holds this file and what it imports, word for word, so inputs and verdicts are those of a
run; it needs torch, and for languages that are compiled this package too.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.seeds import call_seed, late_seed, pools_seed
from flashinfer_bench.compile.packages import import_module
from flashinfer_bench.data import distributions
from flashinfer_bench.errors import BuildError
from flashinfer_bench.judging.case import JudgedCall, JudgeVerdict, Tolerance
from flashinfer_bench.judging.judges import judge_for
from flashinfer_bench.tensors import late_inputs, planned
from flashinfer_bench.tensors.blobs import load_files
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.outputs import allocate, mismatch, poison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_MOST_SETS = 64
_MOST_SET_BYTES = 256 << 20
_INTERPRETED = "triton"


@dataclass(frozen=True, slots=True)
class ReproductionResult:
    """How it ended."""

    is_right: bool
    text: str


class _Wrong(Exception):  # noqa: N818  # the solution's fault, not ours
    """The solution did something wrong."""


def play(case: Mapping[str, Any]) -> ReproductionResult:
    """Make the failing call again; when that one is right, make all calls of the job in their order."""
    torch.set_num_threads(int(case["threads"]))
    player = _Player(case)
    count = 0
    try:
        if case["failing"] is not None:
            trial, call = case["failing"]
            count += player.begin().make(trial, call, player.most_sets if call else 1)
        player.begin()
        for trial, call, sets in _calls(case):
            count += player.make(trial, call, sets)
    except _Wrong as wrong:
        return ReproductionResult(False, str(wrong))
    return ReproductionResult(True, f"right in all of {count} calls")


def _calls(case: Mapping[str, Any]) -> Iterator[tuple[int, int, int]]:
    """Give the calls of a job, in order: trial, number, and how many sets of inputs."""
    counts = case["counts"]
    for trial in range(counts["num_trials"]):
        yield trial, 0, 1
        for call in range(1, 1 + counts["warmup_runs"] + counts["iterations"]):
            yield trial, call, counts["calls_per_sample"]


class _Player:
    """Makes calls of one job and judges each of them."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self._case = case
        self._device = torch.device(case["device"])
        self._plans = tuple(_input_plan(fields) for fields in case["inputs"])
        self._outputs = tuple(_tensor_plan(fields) for fields in case["outputs"])
        self._returned = self._outputs[: len(case["definition"]["outputs"])]
        self._key, self._subject = int(case["key"], 16), str(case["subject"])
        definition = case["definition"]
        self._judge = judge_for(_judged(definition, self._plans), case["extra"])
        self._heard = self._judge.open_case(Tolerance(**case["tolerance"]))
        self._reference = _function(definition["reference"], "reference")
        self._files = load_files(self._plans, case["roots"])
        self._begun = 0

    @property
    def most_sets(self) -> int:
        """How many sets of inputs a call may have had, and fit into memory."""
        size = sum(plan.tensor.size_bytes for plan in self._plans)
        size += sum(plan.size_bytes for plan in self._outputs)
        return max(1, min(_MOST_SETS, _MOST_SET_BYTES // max(1, size)))

    def begin(self) -> _Player:
        """Start with a solution that has not been called yet."""
        self._begun += 1
        self._solution = _built(self._case["solution"], self._case, self._begun)
        self._maker = InputMaker(self._plans, self._device, files=self._files)
        self._trial = -1
        self._state: tuple[Any, ...] = ()
        return self

    def make(self, trial: int, call: int, count: int) -> int:
        """Make one call for each set of inputs, then judge all of them; return how many."""
        self._open_trial(trial)
        seed = call_seed(self._key, self._subject, trial, call)
        sets = self._maker.prepare(seed, min(count, self.most_sets))
        if self._case["rewrites_late"]:
            late_inputs.rewrite(self._plans, sets, late_seed(self._key, self._subject, trial, call))
        before = [_copied(inputs) for inputs in sets]
        returned = [self._call(inputs) for inputs in sets]
        for number, (inputs, got) in enumerate(zip(sets, returned, strict=True)):
            place = f"trial {trial}, call {call}" + (f", set {number}" if count > 1 else "")
            sides = (planned.untouched_of(self._plans, each) for each in (inputs, before[number]))
            if not all(map(_is_same, *sides)):
                raise _Wrong(f"{place}: inputs differ after the call")
            written = planned.mutated_of(self._plans, inputs)
            self._judge_one(before[number], [*got, *written], place)
        if call == 0:
            self._judge_repeats(sets[0], f"trial {trial}, call {call}")
        return len(sets)

    def _open_trial(self, trial: int) -> None:
        if trial == self._trial:
            return
        self._maker.open_trial(pools_seed(self._key, self._subject, trial))
        self._trial, state = trial, None
        prepare, plan = self._solution.prepare, self._solution.plan
        if prepare is not None:
            state = prepare(*self._maker.inputs_of_role("static"))
        if plan is not None:
            planned_state = plan(state, *self._maker.inputs_of_role("metadata"))
            state = state if planned_state is None else planned_state
        self._state = () if prepare is None and plan is None else (state,)

    def _call(self, inputs: Sequence[Any]) -> list[Any]:
        buffers = []
        if self._solution.writes_outputs:
            buffers = allocate(self._returned, self._device)
            poison(buffers)
        try:
            result = self._solution.call(*self._state, *inputs, *buffers)
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
        except Exception as error:
            raise _Wrong(f"it raised\n{traceback.format_exc(limit=-3)}") from error
        return buffers if self._solution.writes_outputs else _as_list(result)

    def _judge_one(self, inputs: Sequence[Any], got: list[Any], place: str) -> None:
        outputs = self._declared(got, place)
        expected = self._expected(inputs) if self._judge.needs_expected else ()
        self._require(self._heard.hear(JudgedCall(inputs, outputs, expected)), place)

    def _judge_repeats(self, inputs: Sequence[Any], place: str) -> None:
        count = self._judge.repeats(inputs)
        if count:
            returned = [self._declared(self._call(inputs), place) for _ in range(count)]
            self._require(self._heard.hear_repeats(inputs, returned), f"{place}, {count} times")

    def _expected(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        own = _copied(inputs)
        returned = _as_list(self._reference(*own))
        return [each.clone() for each in (*returned, *planned.mutated_of(self._plans, own))]

    def _declared(self, got: list[Any], place: str) -> list[Any]:
        least = self._judge.least_outputs
        least = len(self._outputs) if least is None else least
        if not least <= len(got) <= len(self._outputs):
            count = len(self._outputs)
            raise _Wrong(f"{place}: {len(got)} outputs came back, {count} are declared")
        for output, plan in zip(got, self._outputs, strict=False):
            found = mismatch(output, plan, self._device)
            if found is not None:
                raise _Wrong(f"{place}: {found[1]}")
        return [*(each.clone() for each in got), *[None] * (len(self._outputs) - len(got))]

    @staticmethod
    def _require(verdict: JudgeVerdict, place: str) -> None:
        if not verdict.is_accepted:
            raise _Wrong(verdict.placed(place).explanation)


@dataclass(frozen=True, slots=True)
class _Solution:
    call: Callable[..., Any]
    prepare: Callable[..., Any] | None
    plan: Callable[..., Any] | None
    writes_outputs: bool


def _built(solution: Mapping[str, Any], case: Mapping[str, Any], number: int) -> _Solution:
    """Import Python; leave compiled languages to the package, and say so where it is missing."""
    spec = solution["spec"]
    if spec["language"] not in {"python", "triton"}:
        return _built_by_package(solution, case)
    if spec["language"] == _INTERPRETED and case["device"] == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    path, _, symbol = spec["entry_point"].rpartition("::")
    sources = {each["path"]: each["content"] for each in solution["sources"]}
    module = _module(sources, path, f"solution_{number}")
    prepare, plan = (_named(module, spec.get(phase)) for phase in ("prepare", "plan"))
    writes = bool(spec["destination_passing_style"])
    return _Solution(getattr(module, symbol), prepare, plan, writes)


def _built_by_package(solution: Mapping[str, Any], case: Mapping[str, Any]) -> _Solution:
    try:
        compiling = importlib.import_module("flashinfer_bench.compile")
        data = importlib.import_module("flashinfer_bench.data")
    except ImportError as error:
        language = solution["spec"]["language"]
        raise SystemExit(
            f"building {language} needs this package: pip install 'flashinfer-bench[torch]'"
        ) from error
    made = data.Solution.model_validate(solution)
    definition = data.Definition.model_validate(case["definition"])
    runnable = compiling.build(made, definition.signature())
    if runnable.metadata.absence is not None:
        raise SystemExit(f"it cannot run here: {runnable.metadata.absence}")
    writes = runnable.metadata.destination_passing_style
    return _Solution(runnable.callable, runnable.prepare, runnable.plan, writes)


def _module(sources: Mapping[str, str], path: str, package: str) -> Any:
    folder = Path(tempfile.mkdtemp(prefix="reproducer-"))
    for name, content in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    try:
        return import_module(folder, package, PurePosixPath(path), where=path)
    except BuildError as error:
        raise _Wrong(f"{error}\n{error.log}") from error


def _function(source: str, package: str) -> Callable[..., Any]:
    function: Callable[..., Any] = _module({"main.py": source}, "main.py", package).run
    return function


def _named(module: Any, symbol: str | None) -> Callable[..., Any] | None:
    return None if symbol is None else getattr(module, symbol)


def _copied(values: Sequence[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def _is_same(value: Any, copy: Any) -> bool:
    """Compare bits: NaN may have been there before."""
    if not isinstance(value, torch.Tensor):
        return True
    sides = (each.contiguous().view(-1).view(torch.uint8) for each in (value, copy))
    return torch.equal(*sides)


def _as_list(result: object) -> list[Any]:
    if isinstance(result, tuple | list):
        return list(result)
    return [] if result is None else [result]


def _input_plan(fields: Mapping[str, Any]) -> planned.InputPlan:
    drawn = fields["distribution"]
    distribution = (
        None if drawn is None else getattr(distributions, drawn["kind"])(**drawn["fields"])
    )
    tensor = _tensor_plan(fields["tensor"])
    return planned.InputPlan(**{**fields, "tensor": tensor, "distribution": distribution})


def _tensor_plan(fields: Mapping[str, Any]) -> planned.TensorPlan:
    return planned.TensorPlan(fields["name"], tuple(fields["shape"]), fields["dtype"])


def _judged(definition: Mapping[str, Any], plans: Sequence[planned.InputPlan]) -> Any:
    """Give a judge what it looks at in a definition."""
    sides = {
        side: {
            name: SimpleNamespace(**{"shape": None, **spec})
            for name, spec in definition[side].items()
        }
        for side in ("inputs", "outputs")
    }
    mutated = tuple(plan.tensor.name for plan in plans if plan.is_mutated)
    return SimpleNamespace(**{"judge": None, **definition, **sides, "mutated_inputs": mutated})
