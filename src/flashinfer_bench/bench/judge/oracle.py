"""The oracle of one workload: its inputs from the run's key, and what the reference makes of them."""

from __future__ import annotations

import contextlib
import signal
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.judge import precise
from flashinfer_bench.bench.judge.calls import CallId, is_rewritten_late
from flashinfer_bench.bench.judge.input_generator import (
    GeneratedMemory,
    InputGenerator,
    with_scalars,
)
from flashinfer_bench.bench.seeds import call_seed, late_seed, pools_seed, subject_of
from flashinfer_bench.compile import build
from flashinfer_bench.compile.sources import reference_solution
from flashinfer_bench.data import RandomInput
from flashinfer_bench.errors import BenchError, BuildError, DatasetError
from flashinfer_bench.judging import JudgedCall
from flashinfer_bench.tensors.blobs import tensors_from_descriptor
from flashinfer_bench.tensors.generate import FAMILIES_WITH_TIES, InputMaker
from flashinfer_bench.tensors.memory import is_about_memory
from flashinfer_bench.tensors.outputs import fingerprint, mismatch
from flashinfer_bench.tensors.planned import WINDOWED_DTYPES, mutated_of, plan_inputs, plan_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.bench.outcomes import JobNote
    from flashinfer_bench.bench.timing.hold import LateRewriter
    from flashinfer_bench.data import Definition, Workload
    from flashinfer_bench.judging import Judge, Tolerance
    from flashinfer_bench.judging.case import Outputs
    from flashinfer_bench.tensors.devices import Device
    from flashinfer_bench.tensors.planned import InputChange

GENERATED = CallId("generated", 0)
_OUR_FILES = str(Path(__file__).parents[2])
_GATE_FACTOR = 10.0  # the reference must agree with itself ten times better than solutions must
_UNUSUAL_FACTOR = 4.0  # and on unusual inputs so much closer to its own float64 run
_NUDGED_FACTOR = 2.0  # and so much closer when its inputs are off in their last bits
_GATE_DRAWS = 16  # of a reference that samples
_COPIES_IN_DOUBLE = 2
_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8"})


CHANGES_ITS_INPUTS = (
    "the reference changes its inputs; where that is meant, declare the input "
    '`"mutated": true`: then its content after the call is judged like an output'
)


class ReferenceFailedError(Exception):
    """The definition or workload is at fault."""


class _OverdueError(BaseException):
    """Raised within the reference's code; no `except Exception` of it stops that."""


@dataclass(frozen=True, slots=True)
class UnusualDraw:
    """A call with unusual inputs, by trial and number, and what the reference gives for it."""

    family: str
    at: tuple[int, int]
    expected: list[torch.Tensor]


class Oracle:
    """Makes inputs and expected outputs for any trial and call of one workload.

    `files` is what `shared_files` made of the inputs that come from files. `rewriter`: what writes inputs anew as the
    device does for the calls it holds.
    """

    def __init__(
        self,
        definition: Definition,
        workload: Workload,
        *,
        files: int | None,
        device: Device,
        key: int,
        cache_root: Path,
        rewriter: LateRewriter | None = None,
    ) -> None:
        self.definition = definition
        self.axes = dict(workload.axes)
        self._device = device
        self._subject = subject_of(definition.name, workload.uuid)
        self.remedy = _remedy(definition, workload)
        """What to do where inputs drawn for this workload make the reference raise; nothing where none is suspect."""
        self._key = key
        try:
            self.inputs = plan_inputs(definition, workload)
            self.outputs = plan_outputs(definition, workload)
            solution, signature = reference_solution(definition), definition.signature()
            runnable = build(solution, signature, cache_root=cache_root)
            self._reference = runnable.callable
        except BuildError as error:
            raise ReferenceFailedError(f"{error}\n{error.log}") from error
        except BenchError as error:
            raise ReferenceFailedError(str(error)) from error
        self._stored = {} if files is None else tensors_from_descriptor(files, self.inputs)
        self._generator = InputGenerator.of(definition, workload, runnable, self.inputs)
        self._made: GeneratedMemory | None = None
        self._maker = self._new_maker()
        self._trial = -1
        self._rewrite = rewriter
        self._first_outputs: dict[int, list[torch.Tensor]] = {}
        self._precise: list[torch.Tensor] | None = None
        self._has_tried_precise = False
        self._sound_by: tuple[Judge, Tolerance] | None = None
        self._unusual: dict[object, UnusualDraw] = {}
        self._unfit: dict[object, str] = {}
        """Families nobody can be judged on, and why: for this workload, whatever the key."""
        self.limit_s: float | None = None
        """How long one call of the reference may take, in Python code at least."""
        self.sound_properties: set[object] = set()
        """Properties that the reference has, by judge and tolerance: for this workload, whatever the key."""
        self.task_notes: dict[object, tuple[JobNote, ...] | None] = {}
        """How the task is weak, by judge and tolerance: for this workload, whatever the key."""

    def use_key(self, key: int) -> None:
        """Take the key of another job: what was made from the last one is forgotten."""
        if key == self._key:
            return
        self._key = key
        self._trial = -1
        self._first_outputs.clear()
        self._unusual.clear()
        self._precise, self._has_tried_precise = None, False
        self._forget_generated()

    def generated_memory(self) -> int | None:
        """Give a descriptor of what the definition's function made for this key; None where it makes nothing."""
        self._require_maker()
        return None if self._made is None else self._made.descriptor

    @property
    def generated_bytes(self) -> int:
        """What a process keeps of that."""
        return 0 if self._generator is None else self._generator.size_bytes

    def _new_maker(self) -> InputMaker | None:
        """Make inputs as soon as the definition's function was called, where it has one."""
        if self._generator is not None and self._made is None:
            return None
        made = () if self._made is None else self._made.variants
        return InputMaker(
            self.inputs, self._device.torch_device, files=self._stored, generated=made
        )

    def _require_maker(self) -> InputMaker:
        if self._maker is None:
            assert self._generator is not None
            seed = self.call_seed(0, GENERATED.seed_number)
            made = self._held(
                lambda: self._generator_called(seed), "the definition's function for inputs"
            )
            self._made = GeneratedMemory.of(made, self.inputs)
            self.inputs = with_scalars(self.inputs, made[0])
            self._maker = self._new_maker()
            self._trial = -1
        assert self._maker is not None
        return self._maker

    def _generator_called(self, seed: int) -> list[dict[str, Any]]:
        assert self._generator is not None
        return self._generator.variants(seed, self._device)

    def _forget_generated(self) -> None:
        if self._generator is not None:
            self._made = None
            self._maker = None

    @contextlib.contextmanager
    def under_key(self, key: int) -> Iterator[None]:
        """Draw by another key for a while; what was made from the job's own is kept."""
        own_key, own_outputs = self._key, self._first_outputs
        self._key, self._trial, self._first_outputs = key, -1, {}
        self._forget_generated()
        try:
            yield
        finally:
            self._key, self._trial, self._first_outputs = own_key, -1, own_outputs
            self._forget_generated()

    @property
    def size_bytes(self) -> int:
        """Memory this holds: pools, one set of inputs, outputs of first and unusual calls, float64 twins."""
        inputs = sum(plan.tensor.size_bytes for plan in self.inputs)
        return 2 * inputs + 8 * sum(plan.size_bytes for plan in self.outputs)

    @property
    def has_empty_axis(self) -> bool:
        """Whether a tensor of the workload has no elements: then there is nothing to be fast at."""
        there = (plan.tensor for plan in self.inputs if plan.source != "absent")
        return any(0 in tensor.shape for tensor in (*there, *self.outputs))

    def trial_seed(self, trial: int) -> int:
        """Seed of a trial's pools: depends on key, definition, workload and trial only."""
        return pools_seed(self._key, self._subject, trial)

    def call_seed(self, trial: int, call: int) -> int:
        """Seed of a call's windows and scales."""
        return call_seed(self._key, self._subject, trial, call)

    def inputs_of(
        self,
        trial: int,
        call: int,
        count: int = 1,
        *,
        family: str | None = None,
        change: InputChange | None = None,
    ) -> list[list[Any]]:
        """Make the input sets of a sample again; valid until the next time this is called."""
        maker = self._require_maker()
        if trial != self._trial:
            maker.open_trial(self.trial_seed(trial))
            self._trial = trial
        seed = self.call_seed(trial, call)
        sets = maker.prepare(seed, count, family=family, change=change)
        if self._rewrite is not None and not (family or change) and is_rewritten_late(call):
            self._rewrite(self.inputs, sets, self.late_seed(trial, call))
        return sets

    @property
    def rewrites_late(self) -> bool:
        """Whether a part of the inputs of timed calls is written anew once they are launched."""
        return self._rewrite is not None

    def late_seed(self, trial: int, call: int) -> int:
        """Seed of what a call's inputs become once it is launched."""
        return late_seed(self._key, self._subject, trial, call)

    def expected_of_first(self, trial: int) -> list[torch.Tensor]:
        """Return the outputs of a trial's call 0, which every solution is checked on."""
        if trial not in self._first_outputs:
            produced = self.run(self.inputs_of(trial, 0)[0])
            # A copy: they may be views of the inputs, or a buffer the reference uses again.
            self._first_outputs[trial] = [output.clone() for output in produced]
        return self._first_outputs[trial]

    def require_legal(self, trial: int, call: int, count: int) -> None:
        """Run the reference on the inputs of a sample; where it raises, nobody can be judged by them."""
        for arguments in self.inputs_of(trial, call, count):
            try:
                self.run(arguments)
            except ReferenceFailedError as error:
                raise ReferenceFailedError(
                    "a solution failed on inputs drawn for this workload that make the reference itself fail "
                    f"(trial {trial}, call {call}): {error}"
                ) from error

    def run(self, arguments: Sequence[Any], *, seed: int = 0) -> list[torch.Tensor]:
        """Run the reference; what it raises or returns wrong is the dataset's fault, but for want of memory."""
        self._device.seed_generators(seed)
        own: list[Any] = []

        def called() -> Any:
            own.extend(self._with_own_mutated(arguments))
            return self._reference(*own)

        result = self._held(called, "the reference", self.remedy)
        produced = list(result) if isinstance(result, tuple | list) else [result]
        self._require_returned(produced)
        return [*produced, *mutated_of(self.inputs, own)]

    def _held(self, call: Callable[[], Any], who: str, remedy: str = "") -> Any:
        """Call somebody's code; what it raises, or how long it takes, is the dataset's fault."""
        try:
            with _interrupted_after(self.limit_s):
                result = call()
                self._device.synchronize()
        except _OverdueError as overdue:
            frames = traceback.extract_tb(overdue.__traceback__)[:-1]
            theirs = [each for each in frames if not each.filename.startswith(_OUR_FILES)]
            where = "".join(traceback.format_list(theirs))
            raise ReferenceFailedError(
                f"{who} did not return within {self.limit_s:g} s (--timeout)\n"
                f"it was here (the last call is the last line):\n{where}"
            ) from None
        except DatasetError as error:
            raise ReferenceFailedError(f"{who} {error.message}") from error
        except (
            Exception,
            SystemExit,
        ) as error:  # whatever a reference raises is the dataset's fault
            if isinstance(error, torch.OutOfMemoryError) or is_about_memory(repr(error)):
                raise torch.OutOfMemoryError(str(error)) from error
            told = "".join(traceback.format_exception(error, limit=-3))
            raise ReferenceFailedError(f"{who} raised\n{told}{remedy}") from error
        return result

    def run_altered(
        self, function: Callable[..., Any] | None, arguments: Sequence[Any], *, limit_s: float
    ) -> list[torch.Tensor] | None:
        """Run an altered reference, or the reference on other inputs; None where that gives no outputs in time."""
        self._device.seed_generators(0)
        try:
            own = self._with_own_mutated(arguments)
            with _interrupted_after(limit_s):
                result = (function or self._reference)(*own)
                self._device.synchronize()
        except (_OverdueError, Exception, SystemExit):  # noqa: BLE001  # it is no reference: nobody is at fault
            return None
        produced = list(result) if isinstance(result, tuple | list) else [result]
        if not all(isinstance(each, torch.Tensor) for each in produced):
            return None
        return [*produced, *mutated_of(self.inputs, own)]

    def _with_own_mutated(self, arguments: Sequence[Any]) -> list[Any]:
        """Give the reference copies of what it writes into: a caller's inputs stay as they were made."""
        return [
            value.clone() if plan.is_mutated else value
            for plan, value in zip(self.inputs, arguments, strict=True)
        ]

    def run_in_double(
        self, arguments: Sequence[Any], native: Sequence[torch.Tensor]
    ) -> list[torch.Tensor] | None:
        """Run the reference in float64; None where it cannot be, or does not fit."""
        if not any(plan.dtype in WINDOWED_DTYPES for plan in self.outputs):
            return None
        if precise.size_in_double(arguments) * _COPIES_IN_DOUBLE > self._device.available_bytes():
            return None
        own = self._with_own_mutated(arguments)
        written = [number for number, plan in enumerate(self.inputs) if plan.is_mutated]
        return precise.run_in_double(self._reference, own, native, written=written)

    def require_sound(self, judge: Judge, tolerance: Tolerance) -> None:
        """The definition gate: declared shapes, inputs untouched, and it agrees with itself."""
        if self._sound_by == (judge, tolerance):
            return
        arguments = self.inputs_of(0, 0)[0]
        before = fingerprint(arguments)
        first = [output.clone() for output in self.run(arguments)]
        if fingerprint(arguments) != before:
            raise ReferenceFailedError(CHANGES_ITS_INPUTS)
        case = judge.open_case(tolerance.tightened(_GATE_FACTOR))
        try:
            if judge.needs_expected:
                verdict = case.hear(JudgedCall(arguments, self.run(arguments), first))
            else:
                verdict = case.hear_repeats(arguments, self._repeated(arguments, judge))
        except BenchError as error:
            raise ReferenceFailedError(str(error)) from error
        if not verdict.is_accepted:
            how = "when run twice" if judge.needs_expected else "by its own inputs"
            raise ReferenceFailedError(
                f"the reference does not agree with itself {how}: {verdict.explanation}"
            )
        self._first_outputs[0] = first
        self._sound_by = judge, tolerance

    def precision(self, judge: Judge, got: Outputs) -> dict[str, float] | None:
        """Compare errors against a float64 run of the reference on call 0 of trial 0.

        Root mean square error of the solution, of the reference in its own precision, and their ratio;
        `None` where the reference does not run in float64, or nothing in its outputs is a number.
        """
        native = self.expected_of_first(0)
        if not self._has_tried_precise:
            self._has_tried_precise = True
            self._precise = self.run_in_double(self.inputs_of(0, 0)[0], native)
        if self._precise is None:
            return None
        is_there = [number for number, output in enumerate(got) if output is not None]
        ours = judge.comparable(got, self._precise)
        theirs = [pair for pair in judge.comparable(native, self._precise) if pair[0] in is_there]
        return precise.precision(ours, theirs)

    def unusual(
        self, family: str, judge: Judge, tolerance: Tolerance, *, at: tuple[int, int]
    ) -> UnusualDraw | str:
        """Make unusual inputs and what the reference gives for them, or say why nobody can be judged on them.

        Before it is held against a solution that it gives something else, `doubt` has to be asked: that takes two
        runs in float64, more than all other checks of a job.
        """
        subject = family, judge, tolerance
        if subject not in self._unfit and (*subject, at) not in self._unusual:
            draw = self._unusual_draw(family, judge, at=at)
            if isinstance(draw, str):
                self._unfit[subject] = draw
            else:
                self._unusual[*subject, at] = draw
        return self._unfit.get(subject) or self._unusual[*subject, at]

    def doubt(self, draw: UnusualDraw, judge: Judge, tolerance: Tolerance) -> str | None:
        """Say why nobody can be judged on a draw after all, if that is so."""
        arguments = self.inputs_of(*draw.at, family=draw.family)[0]
        found = self._weakness(arguments, draw.expected, judge, tolerance)
        if found is not None:
            self._unfit[draw.family, judge, tolerance] = found
        return found

    def _unusual_draw(self, family: str, judge: Judge, *, at: tuple[int, int]) -> UnusualDraw | str:
        if family in FAMILIES_WITH_TIES and judge.has_exact_outputs:
            return "equal values make ties, and the judge wants one answer"
        arguments = self.inputs_of(*at, family=family)[0]
        try:
            native = [output.clone() for output in self.run(arguments)]
        except ReferenceFailedError:
            return "the reference raises"
        if not all(bool(output.isfinite().all()) for output in native):
            return "the reference is not finite"
        return UnusualDraw(family, at, native)

    def _weakness(
        self,
        arguments: Sequence[Any],
        native: Sequence[torch.Tensor],
        judge: Judge,
        tolerance: Tolerance,
    ) -> str | None:
        """Say what a reference lacks to be judged by on these inputs."""
        exact = self.run_in_double(arguments, native)
        if exact is None:
            return "the reference does not run in float64"
        tighter = tolerance.tightened(_UNUSUAL_FACTOR)
        narrowed = [wide.to(out.dtype) for wide, out in zip(exact, native, strict=True)]
        if not judge.open_case(tighter).hear(JudgedCall(arguments, native, narrowed)).is_accepted:
            return "the reference is too far from its own float64 run"
        nearby = self.run_in_double([precise.nudged(each) for each in arguments], native)
        assert nearby is not None  # it was run so a moment ago
        tighter = tolerance.tightened(_NUDGED_FACTOR)
        if not judge.open_case(tighter).hear(JudgedCall(arguments, nearby, exact)).is_accepted:
            return "the answer hangs on the last bits of the inputs"
        return None

    def _repeated(self, arguments: Sequence[Any], judge: Judge) -> list[list[torch.Tensor]]:
        """Let the reference draw a few times; enough to see that it draws what its inputs say."""
        count = min(_GATE_DRAWS, judge.repeats(arguments))
        return [[out.clone() for out in self.run(arguments, seed=seed)] for seed in range(count)]

    def _require_returned(self, produced: list[Any]) -> None:
        returned = self.outputs[: len(self.definition.outputs)]
        if len(produced) != len(returned):
            raise ReferenceFailedError(
                f"the reference returns {len(produced)} outputs; {len(returned)} are declared"
            )
        for output, plan in zip(produced, returned, strict=True):
            found = mismatch(output, plan, self._device.torch_device)
            if found is not None:
                raise ReferenceFailedError(f"the reference's {found[1]}")


@contextlib.contextmanager
def _interrupted_after(limit_s: float | None) -> Iterator[None]:
    """Raise `_OverdueError` within the block when it takes too long; compiled code is waited for."""
    if limit_s is None:
        yield
        return

    def raise_overdue(_number: int, _frame: object) -> None:
        raise _OverdueError

    before = signal.signal(signal.SIGALRM, raise_overdue)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _remedy(definition: Definition, workload: Workload) -> str:
    """Name the integers whose range nobody declared: they may be meant as indices, lengths or offsets."""
    undeclared = [
        name
        for name, source in workload.inputs.items()
        if isinstance(source, RandomInput)
        and source.distribution is None
        and definition.inputs[name].dtype in _INTEGERS
    ]
    if not undeclared:
        return ""
    return (
        f"{', '.join(undeclared)}: integers that may lie out of range, because the workload does not declare what they "
        'hold; declare the "distribution" of each (docs/formats.md, "What random inputs hold")\n'
    )
