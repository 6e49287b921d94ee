"""Solution and original side by side: `shadow` and `verify_first_n`, and what a call gets of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch

from flashinfer_bench.apply.fast_path import Answer
from flashinfer_bench.apply.stats import ComparedCalls
from flashinfer_bench.intercept.call import as_it_is
from flashinfer_bench.judging import JudgedCall, JudgeVerdict, Tolerance
from flashinfer_bench.judging.case import worst
from flashinfer_bench.judging.judges import judge_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.apply.config import ApplyConfig
    from flashinfer_bench.apply.kernels import Kernel
    from flashinfer_bench.data import Definition
    from flashinfer_bench.intercept import Proceed
    from flashinfer_bench.intercept.chain import Inside


Outputs = list["torch.Tensor | None"]

_LOG = logging.getLogger("flashinfer_bench.apply")


class OriginalComparison:
    """Compares the answers of one definition's solutions with the original's, by the definition's judge."""

    def __init__(self, definition: Definition, config: ApplyConfig) -> None:
        self._definition = definition
        self._judge = judge_for(definition)
        self._tolerance = Tolerance(rtol=config.verify_rtol, atol=config.verify_atol)
        self._lock = threading.Lock()
        self.by_solution: dict[str, ComparedCalls] = {}

    def hear(
        self, solution: str, inputs: Sequence[Any], got: TimedAnswer, expected: TimedAnswer
    ) -> JudgeVerdict:
        """Judge one call, and remember how it went; the first disagreement of a solution is logged."""
        verdict = self._judged(inputs, outputs_in(got.answer), outputs_in(expected.answer))
        with self._lock:
            found = self.by_solution.setdefault(solution, ComparedCalls())
            found.calls += 1
            found.solution_ms += got.elapsed_ms
            found.original_ms += expected.elapsed_ms
            found.max_absolute_error = worst(found.max_absolute_error, verdict.max_absolute)
            found.max_relative_error = worst(found.max_relative_error, verdict.max_relative)
            is_first = not verdict.is_accepted and not found.disagreements
            found.disagreements += not verdict.is_accepted
            if is_first:
                found.first_disagreement = verdict.explanation
        if is_first:
            _LOG.warning("%s disagrees with the original: %s", solution, verdict.explanation)
        return verdict

    def _judged(self, inputs: Sequence[Any], got: Outputs, expected: Outputs) -> JudgeVerdict:
        names = list(self._definition.outputs)
        if len(expected) != len(names):
            return _wrong(f"the original gave {len(expected)} values for {len(names)} outputs")
        if len(got) != len(names):
            return _wrong(f"it gave {len(got)} values for {len(names)} outputs")
        # What the original was not asked for, such as a log-sum-exp, cannot be compared.
        got = [None if theirs is None else ours for ours, theirs in zip(got, expected, strict=True)]
        for name, ours, theirs in zip(names, got, expected, strict=True):
            if theirs is not None and _form(ours) != _form(theirs):
                return _wrong(f"output {name!r} is {_form(ours)}, the original's {_form(theirs)}")
        with torch.no_grad():
            case = self._judge.open_case(self._tolerance)
            return case.hear(JudgedCall(inputs, got, cast("list[torch.Tensor]", expected)))


class TimedAnswer:
    """An answer and the time it took, the device's work included."""

    def __init__(self, call: Callable[[], Any]) -> None:
        _wait()
        started_s = time.perf_counter()
        self.answer = call()
        _wait()
        self.elapsed_ms = (time.perf_counter() - started_s) * 1e3


def _wait() -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # untyped in torch
        torch.cuda.synchronize()


def outputs_in(answer: Any) -> Outputs:
    """List the outputs of an answer; None where one was not asked for."""
    values = answer if isinstance(answer, tuple | list) else (answer,)
    return [value for value in values if value is None or isinstance(value, torch.Tensor)]


def copies_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """Copy tensors, so that what is compared cannot be changed by the other side."""
    return tuple(
        value.detach().clone() if isinstance(value, torch.Tensor) else value for value in values
    )


def _form(tensor: torch.Tensor | None) -> str:
    if tensor is None:
        return "missing"
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} on {tensor.device}"


def _wrong(explanation: str) -> JudgeVerdict:
    return JudgeVerdict(is_accepted=False, explanation=explanation)


_Heard = Callable[[tuple[Any, ...], TimedAnswer, TimedAnswer], None]
"""Told inputs, the solution's outputs and the original's."""


def by_fallback(count: Callable[[], int]) -> Answer:
    """Let calls proceed."""

    def link(args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed) -> Any:
        count()
        return proceed(*args, **kwargs)

    return Answer(None, count, link)


def compared(
    kernel: Kernel,
    input_count: int,
    heard: _Heard,
    failed: Callable[[Exception], None],
    *,
    inside: Inside,
    recorded: Callable[[], object],
) -> Answer:
    """Run the kernel on copies, then let the call proceed and return that answer; both are told to `heard`.

    While a CUDA graph is recorded nothing is compared, and `recorded` called.
    """

    def link(args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed) -> Any:
        if is_capturing():
            recorded()
            return proceed(*args, **kwargs)
        copies = copies_of(args)
        before = inside.solution
        inside.solution = True
        try:
            ours = TimedAnswer(lambda: kernel(*copies))
        except Exception as error:  # noqa: BLE001 - the program has its fallback
            failed(error)
            ours = None
        finally:
            inside.solution = before
        theirs = TimedAnswer(lambda: proceed(*args, **kwargs))
        answer = theirs.answer
        if ours is not None:
            if len(args) > input_count:
                ours.answer, theirs.answer = copies[input_count:], args[input_count:]
            else:
                theirs.answer = getattr(proceed, "outputs_of", as_it_is)(answer)
            heard(copies[:input_count], ours, theirs)
        return answer

    return Answer(None, _nothing, link)


def _nothing() -> None:
    pass


def on_device(kernel: Kernel, device: torch.device) -> Kernel:
    """Make the device of its tensors the current one while a kernel is launched."""
    if device.type != "cuda":
        return kernel
    current_device, index = torch.cuda.current_device, device.index

    def launched(*args: Any) -> Any:
        if current_device() == index:
            return kernel(*args)
        with torch.cuda.device(index):
            return kernel(*args)

    return launched


def is_capturing() -> bool:
    """Tell whether a CUDA graph is recorded: then nothing is built and nothing waited for."""
    is_initialized: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # untyped in torch
    return is_initialized and torch.cuda.is_current_stream_capturing()
