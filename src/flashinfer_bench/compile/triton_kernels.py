"""Triton kernels compiled for a GPU that is not here.

A kernel's types come from the arguments of its launch, so the entry point is called with tensors
that have a shape and a dtype and no content, and each launch on its way compiles instead.
"""

from __future__ import annotations

import contextlib
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.compile.architectures import Gpu
    from flashinfer_bench.compile.runnable import Runnable
    from flashinfer_bench.data import Solution
    from flashinfer_bench.tensors.planned import InputPlan

_WARP_SIZE = 32
_NO_GRID = "outside of the scope of a kernel"
"""How Triton says that a kernel was called like a function."""
_DEVICES = ("meta", "cuda", "cpu")
"""Where the arguments are said to lie. Code that asks for a GPU finds none in meta, but that takes no second to
import; a torch without CUDA runs fewer operations on tensors called cuda."""


def compile_for(
    gpu: Gpu, solution: Solution, runnable: Runnable, arguments: Sequence[InputPlan]
) -> str | None:
    """Compile the kernels that the entry point launches; raises `BuildError` with Triton's words.

    Host code that needs a real GPU, or values, ends the search early, and nobody is blamed. Gives
    None when a kernel was compiled, else why none was.
    """
    if not arguments or runnable.prepare is not None or runnable.plan is not None:
        return "its kernels take their types from a call that cannot be made without a device"
    with _compiling(gpu) as seen:
        for device in _DEVICES:
            stopped = _stopped_by(solution, runnable, arguments, device)
            if seen.failure is not None:
                raise _refusal(gpu, solution, seen.failure)
            is_whole, is_final = stopped is None, device != "meta"
            if (is_whole and seen.compiled) or (is_final and (is_whole or seen.compiled)):
                break
    if seen.compiled:
        return None
    return "it launches no kernel" if stopped is None else _headline(stopped)


def _stopped_by(
    solution: Solution, runnable: Runnable, arguments: Sequence[InputPlan], device: str
) -> Exception | None:
    """Call the entry point, and give what ended the call early."""
    try:
        _call_without_content(runnable.callable, arguments, device)
    except Exception as error:  # noqa: BLE001 - a solution may raise anything
        if _NO_GRID in str(error):
            raise _gridless(solution, error) from None
        return error
    return None


def _gridless(solution: Solution, error: Exception) -> BuildError:
    message = f"solution {solution.name!r} calls a kernel without a grid; write kernel[grid](...)"
    return BuildError(message, log="".join(traceback.format_exception(error)))


def _refusal(gpu: Gpu, solution: Solution, failure: Exception) -> BuildError:
    message = f"solution {solution.name!r} does not compile for {gpu.arch}: {_headline(failure)}"
    return BuildError(message, log=f"{type(failure).__name__}: {failure}")


@dataclass(slots=True)
class _SeenLaunches:
    """What became of the launches."""

    compiled: int = 0
    failure: Exception | None = None


class _AbsentDriver:
    """What Triton asks a driver while it compiles."""

    def __init__(self, gpu: Gpu) -> None:
        self._capability = gpu.capability

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget  # noqa: PLC0415

        return GPUTarget("cuda", self._capability, _WARP_SIZE)

    def get_current_device(self) -> int:
        """A number of its own for each architecture: Triton remembers kernels by it."""
        return self._capability

    def get_current_stream(self, device: int) -> int:
        return device

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Every configuration takes no time, so the first one is chosen and compiled."""
        return lambda *_, quantiles=(0.5,), **__: [0.0] * len(quantiles or (0.5,))


@contextlib.contextmanager
def _compiling(gpu: Gpu) -> Iterator[_SeenLaunches]:
    """Let launches compile for `gpu` and end there."""
    from triton.runtime.driver import driver  # noqa: PLC0415
    from triton.runtime.jit import JITFunction  # noqa: PLC0415

    seen = _SeenLaunches()
    launch = JITFunction.run

    def compile_only(kernel: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:  # noqa: ARG001
        try:
            positional = [_described(value) for value in args]
            named = {name: _described(value) for name, value in options.items()}
            compiled = launch(kernel, *positional, grid=grid, warmup=True, **named)
        except Exception as error:
            seen.failure = seen.failure or error
            raise
        seen.compiled += 1
        return compiled

    before = driver._active  # `active` would look for a GPU
    driver.set_active(_AbsentDriver(gpu))
    JITFunction.run = compile_only
    try:
        yield seen
    finally:
        JITFunction.run = launch
        driver._active = before


def _described(value: Any) -> Any:
    """Replace a tensor by what Triton compiles for: its dtype."""
    import torch  # noqa: PLC0415
    from triton.runtime.jit import MockTensor  # noqa: PLC0415

    if isinstance(value, torch.Tensor):
        return MockTensor(value.dtype, list(value.shape))
    if type(value) is tuple:
        return tuple(_described(each) for each in value)
    return value


def _call_without_content(
    function: Callable[..., Any], arguments: Sequence[InputPlan], device: str
) -> None:
    with _pretending(device):
        function(*(_without_content(plan, device) for plan in arguments))


def _pretending(device: str) -> contextlib.AbstractContextManager[object]:
    """Let tensors without content say that they lie on a device."""
    if device == "meta":
        return contextlib.nullcontext()
    from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415  # 1.2 s

    return FakeTensorMode()


def _without_content(plan: InputPlan, device: str) -> Any:
    import torch  # noqa: PLC0415

    from flashinfer_bench.tensors.dtypes import torch_dtype  # noqa: PLC0415

    if plan.source != "scalar":
        dtype = torch_dtype(plan.tensor.dtype)
        return torch.empty(plan.tensor.torch_shape, dtype=dtype, device=device)
    if plan.value is not None:
        return plan.value
    return 1.0 if plan.tensor.dtype.startswith(("float", "bfloat")) else 1


def _headline(error: Exception) -> str:
    """Pick the line that says what is wrong; the others show where."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
