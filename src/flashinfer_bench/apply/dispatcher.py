"""The calls of one definition: which solution answers which, decided once for each size."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.apply.comparing import (
    OriginalComparison,
    by_fallback,
    compared,
    is_capturing,
    on_device,
)
from flashinfer_bench.apply.fast_path import PLAIN, Answer, marking, written_out
from flashinfer_bench.apply.kernels import (
    destination_passing,
    device_of,
    value_returning,
)
from flashinfer_bench.apply.stats import ApplyCounters, Counter
from flashinfer_bench.apply.table import ApplyKey, Choice, WinnerTable, merged, tables_of
from flashinfer_bench.errors import UsageError
from flashinfer_bench.intercept.catalogue import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from flashinfer_bench.apply.comparing import TimedAnswer
    from flashinfer_bench.apply.config import ApplyConfig
    from flashinfer_bench.apply.kernels import Kernel, Kernels
    from flashinfer_bench.compile import Runnable
    from flashinfer_bench.data import Definition, TraceSet
    from flashinfer_bench.intercept import Link, Proceed
    from flashinfer_bench.intercept.chain import Inside

_MOST_KEYS = 16_384
"""Keys whose answers are remembered; calls of further ones are decided each time."""


@dataclass
class Style:
    """One way to call a definition, with inputs only or with outputs too, and the answers known for it."""

    has_outputs: bool
    link: Link
    key: Callable[[tuple[Any, ...]], Hashable | None]
    answers: dict[Hashable, Answer]


@dataclass(frozen=True)
class Means:
    """What the dispatchers of one runtime share."""

    trace_set: TraceSet
    kernels: Kernels
    hardware_of: Callable[[torch.device], str]
    """Names a device as traces do."""
    inside: Inside
    """Says which threads are inside a solution."""
    patched: object
    """Falsy while nothing is patched."""


class Dispatcher:
    """Answers the calls of one definition, by its best solutions where they were measured."""

    def __init__(self, definition: Definition, config: ApplyConfig, means: Means) -> None:
        self.definition = definition
        self.misses = ApplyCounters()
        self.hits: list[tuple[Choice, Counter]] = []
        self._config = config
        self._means = means
        self._lock = threading.RLock()
        self._tables: dict[str, WinnerTable] | None = None
        self._known: dict[str, WinnerTable] = {}
        self._comparison: OriginalComparison | None = None
        self._verified_calls = config.verify_first_n
        self._marked = marking(means.inside)
        self._returning = self._style(has_outputs=False)
        self._into = self._style(has_outputs=True)
        self.link: Link = self._returning.link

    @property
    def compared(self) -> Mapping[str, Any]:
        """How solutions stood up against the original."""
        return {} if self._comparison is None else self._comparison.by_solution

    def expect_library_calls(self) -> None:
        """Verify one call of each size at least: that a library's call is this definition is a reading, not a fact."""
        with self._lock:
            if not self._verified_calls:
                self._verified_calls = 1
                self._forget()

    def tables(self) -> dict[str, WinnerTable]:
        """Give the table of each device, read when first asked for."""
        with self._lock:
            if self._tables is None:
                self._tables = tables_of(self._means.trace_set, self.definition.name, self._config)
            return self._tables

    def know(self, hardware: str, table: WinnerTable) -> None:
        """Take over a table for one device that need not be read any more."""
        self._known[hardware] = table

    def table(self, hardware: str) -> WinnerTable:
        """Give the table for one device."""
        if self._config.allow_other_hardware:
            return merged(self.tables(), hardware)
        known = self._known.get(hardware)
        return self.tables().get(hardware, WinnerTable({})) if known is None else known

    def _is_measured_elsewhere(self, key: ApplyKey) -> bool:
        return any(key in table.winners for table in self.tables().values())

    def build_ahead(self, hardware: str) -> None:
        """Build the share of winners the settings ask for; what fails is put under quarantine."""
        for name in self.table(hardware).to_build(self._config):
            self._built(name)

    def _style(self, *, has_outputs: bool) -> Style:
        specs = [*self.definition.inputs.values()]
        specs += self.definition.outputs.values() if has_outputs else ()
        answers: dict[Hashable, Answer] = {}
        link, key = written_out(
            specs,
            answers,
            self._consider,
            self._marked,
            patched=self._means.patched,
            has_accelerator=torch.cuda.is_available(),
        )
        return Style(has_outputs, link, key, answers)

    # Deciding

    def _consider(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed) -> Any:
        """Answer a call that no answer is known for, or that is not called with inputs only, by position."""
        laid_out = self.definition.merge_kwargs_to_args(args, kwargs)
        style = self._style_of(len(laid_out))
        key = style.key(laid_out)
        if key is None:
            self.misses[self._refusal(laid_out)].count()
            return proceed(*args, **kwargs)
        answer = style.answers.get(key) or self._decide(style, key, laid_out)
        if kwargs:
            return self._answered(answer, laid_out, {}, lambda *_: proceed(*args, **kwargs))
        return self._answered(answer, args, kwargs, proceed)

    def _answered(
        self, answer: Answer, args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed
    ) -> Any:
        if answer.kernel is None:
            return answer.other(args, kwargs, proceed)
        return self._marked(answer.kernel, answer.counted, answer.other, args, proceed)

    def _style_of(self, count: int) -> Style:
        inputs, outputs = len(self.definition.inputs), len(self.definition.outputs)
        if count == inputs:
            return self._returning
        if count == inputs + outputs:
            return self._into
        raise UsageError(
            f"{self.definition.name} takes {inputs} inputs, or {inputs + outputs} arguments with its outputs; "
            f"{count} were given"
        )

    def _refusal(self, args: tuple[Any, ...]) -> str:
        """Say why no solution may see these arguments."""
        specs = (*self.definition.inputs.items(), *self.definition.outputs.items())
        for (name, spec), value in zip(specs, args, strict=False):
            if (spec.shape is None) != (not isinstance(value, torch.Tensor)):
                return f"{name}: {type(value).__name__} where another kind was declared"
            if not isinstance(value, torch.Tensor):
                continue
            if value.__class__ not in PLAIN:
                return f"{name}: {type(value).__name__} is no plain tensor"
            if str(value.dtype) != f"torch.{spec.dtype}":
                return f"{name}: {value.dtype} is not {spec.dtype}"
            if not value.is_contiguous():
                return f"{name}: not contiguous"
            if torch.is_grad_enabled() and value.requires_grad:
                return f"{name}: needs a gradient"
        return "a tensor on a device that is not here"

    def _decide(self, style: Style, key: Hashable, args: tuple[Any, ...]) -> Answer:
        with self._lock:
            if is_capturing():
                return by_fallback(self.misses["while a CUDA graph was recorded"].count)
            known = style.answers.get(key)  # another thread may have been here
            if known is None:
                known = self._answer(style, key, args)
                if len(style.answers) < _MOST_KEYS:
                    style.answers[key] = known
            return known

    def _answer(self, style: Style, key: Hashable, args: tuple[Any, ...]) -> Answer:
        inputs = args[: len(self.definition.inputs)]
        if not fits(self.definition, inputs):
            return by_fallback(self.misses["shapes that do not fit"].count)
        axes = self.definition.get_axes_values_from_inputs(inputs)
        size = ", ".join(f"{name}={length}" for name, length in axes.items()) or "the one size"
        outputs = args[len(inputs) :]
        wanted = self.definition.get_output_shapes(axes)
        if outputs and [list(each.shape) for each in outputs] != [each or [] for each in wanted]:
            return by_fallback(self.misses[f"{size}: outputs of other shapes"].count)
        choice = self._choose(ApplyKey.of(axes), inputs)
        if choice is None:
            is_elsewhere = self._is_measured_elsewhere(ApplyKey.of(axes))
            why = "measured on other hardware" if is_elsewhere else "not measured"
            return by_fallback(self.misses[f"{size}: {why}"].count)
        runnable = self._built(choice.solution)
        if runnable is None:
            return by_fallback(self.misses[f"{size}: {choice.solution} is quarantined"].count)
        return self._by(choice, runnable, style, key, inputs)

    def _choose(self, key: ApplyKey, inputs: tuple[Any, ...]) -> Choice | None:
        table = self.table(self._means.hardware_of(device_of(inputs)))
        return table.choose(key, self._config.on_miss_policy)

    def _built(self, name: str) -> Runnable | None:
        solution = self._means.trace_set.get_solution(name)
        assert solution is not None  # winners are read with the dataset's solutions in hand
        return self._means.kernels.build(self.definition, solution)

    def _by(
        self,
        choice: Choice,
        runnable: Runnable,
        style: Style,
        key: Hashable,
        inputs: tuple[Any, ...],
    ) -> Answer:
        kernel: Kernel = (
            destination_passing(self.definition, runnable)
            if style.has_outputs
            else value_returning(self.definition, runnable, inputs)
        )
        kernel = on_device(kernel, device_of(inputs))
        failed = partial(self._failed, choice.solution)
        counter = Counter()
        self.hits.append((choice, counter))
        answer = Answer(kernel, counter.count, failed)
        if not self._config.shadow and not self._verified_calls:
            return answer
        left = [None if self._config.shadow else self._verified_calls]

        def heard(inputs: tuple[Any, ...], ours: TimedAnswer, theirs: TimedAnswer) -> None:
            self.misses["compared with the original"].count()
            verdict = self._compare().hear(choice.solution, inputs, ours, theirs)
            if left[0] is None:
                return
            if not verdict.is_accepted:
                self._fail(choice.solution, f"disagrees with the original: {verdict.explanation}")
                return
            left[0] -= 1
            if left[0] <= 0 and key in style.answers:
                style.answers[key] = answer

        recorded = self.misses["while a CUDA graph was recorded, and not compared before"].count
        inside = self._means.inside
        return compared(kernel, len(inputs), heard, failed, inside=inside, recorded=recorded)

    def _compare(self) -> OriginalComparison:
        with self._lock:
            if self._comparison is None:
                self._comparison = OriginalComparison(self.definition, self._config)
            return self._comparison

    # Failing

    def _failed(self, solution: str, error: Exception) -> None:
        if isinstance(error, torch.OutOfMemoryError):
            self.misses["out of memory"].count()  # the program's state, not the solution's fault
            return
        self._fail(solution, f"raised {type(error).__name__}: {error}")

    def _fail(self, solution: str, reason: str) -> None:
        self._means.kernels.quarantine(solution, reason)
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._returning.answers.clear()
        self._into.answers.clear()
