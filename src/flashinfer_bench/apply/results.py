"""How calls are answered by the fallback: with or without a solution that is looked at beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.apply.comparing import TimedAnswer, copies_of
from flashinfer_bench.apply.fast_path import Answer
from flashinfer_bench.intercept.call import as_it_is

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.apply.kernels import Kernel
    from flashinfer_bench.intercept import Proceed
    from flashinfer_bench.intercept.chain import Inside

Heard = Callable[[tuple[Any, ...], TimedAnswer, TimedAnswer], None]
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
    heard: Heard,
    failed: Callable[[Exception], None],
    inside: Inside,
) -> Answer:
    """Run the kernel on copies, then let the call proceed and return that answer; both are told to `heard`."""

    def link(args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed) -> Any:
        if is_capturing():
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
