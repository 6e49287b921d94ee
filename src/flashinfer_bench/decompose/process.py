"""Work on a given file in a process of its own, with a limit on memory and time; the side that asks has no torch.

The file's code is run, so nothing it does may take the caller along: it may crash, hang or fill the memory. Work
is named (`package.module:function`) rather than handed over, so that the caller need not import torch.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.util
import multiprocessing
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from flashinfer_bench.decompose.ir import LEVELS, Level
from flashinfer_bench.decompose.model_errors import is_full
from flashinfer_bench.decompose.run_as import RunAs
from flashinfer_bench.errors import (
    BenchError,
    DeviceError,
    MissingPackageError,
    UsageError,
    WorkerError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from multiprocessing.process import BaseProcess


GIB = 1 << 30
_PRELOADED = [
    "flashinfer_bench.decompose.process",  # else each child reads it anew, whatever it is by then
    "torch",
    "torch._dynamo",  # what runs on meta asks it whether to compile
    "torch._refs",
    "torch.utils._device",
    "flashinfer_bench.decompose.pipeline",
    "flashinfer_bench.decompose.verify",
]
_OUTPUT_KEPT = 64_000
_STACK_SIGNAL = signal.SIGUSR2
_STACK_S = 0.2
_LONGEST_SOCKET_FOLDER = (
    70  # of the 107 bytes that Linux has for a socket's name, `multiprocessing` adds 32
)


@dataclass(frozen=True)
class WorkLimits:
    """What work on one file may take."""

    seconds: float = 600.0
    memory_bytes: int = 8 * GIB
    threads: int = 1


@dataclass(frozen=True)
class WorkTask:
    """Work to be done: a function's full name, `package.module:function`, and what it is given."""

    job: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    """What it is about, for messages: the file."""


class WorkDone(msgspec.Struct, frozen=True, tag=True):
    """The work was done: a value of JSON's kinds; `output` is what it printed."""

    value: Any
    output: str = ""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The work cannot be done, and the reason is the file's: one sentence."""

    message: str
    exit_code: int = UsageError.exit_code
    output: str = ""


class WorkEnded(msgspec.Struct, frozen=True, tag=True):
    """The process ended before the work was done: limits, a crash, or a fault of ours with its traceback."""

    message: str
    output: str = ""
    is_ours: bool = False
    stack: str = ""
    """Where its Python code was when its time was up."""


Outcome = WorkDone | Refused | WorkEnded
_ANSWERS: msgspec.json.Decoder[Outcome] = msgspec.json.Decoder(Outcome)


def preload(*modules: str) -> None:
    """Have the server import more, once for all tasks; before the first of them."""
    _PRELOADED.extend(each for each in modules if each not in _PRELOADED)


def run_alone(task: WorkTask, limits: WorkLimits | None = None) -> Any:
    """Do one task in a process of its own and return its value; what goes wrong is one clear error."""
    ((_, outcome),) = run_each([task], limits or WorkLimits())
    match outcome:
        case WorkDone():
            return outcome.value
        case Refused(exit_code=DeviceError.exit_code):
            raise DeviceError(outcome.message)
        case Refused():
            raise UsageError(outcome.message)
        case WorkEnded(is_ours=True):
            raise WorkerError(f"{outcome.message}\n{outcome.output}".rstrip())
        case WorkEnded():
            raise UsageError(outcome.message)


def run_each(
    tasks: Iterable[WorkTask], limits: WorkLimits | None = None, *, at_once: int = 1
) -> Iterator[tuple[WorkTask, Outcome]]:
    """Do tasks, each in a process of its own and several at once; they come back as they end."""
    if importlib.util.find_spec("torch") is None:
        raise MissingPackageError("torch", extra="torch", needed_for="running a model")
    limits = limits or WorkLimits()
    waiting = iter(tasks)
    running: list[_Running] = []
    try:
        while True:
            while len(running) < at_once and (task := next(waiting, None)) is not None:
                running.append(_start(task, limits))
            if not running:
                return
            for ended in _some_ended(running):
                running.remove(ended)
                yield ended.task, ended.outcome()
    finally:
        for each in running:
            each.discard()


@dataclass(eq=False)
class _Running:
    task: WorkTask
    limits: WorkLimits
    process: BaseProcess
    answers: Connection
    deadline: float
    output_path: Path
    is_late: bool = False

    def kill(self) -> None:
        """End the process and whatever it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.kill()
        self.process.join()

    def discard(self) -> None:
        """End the process; nobody asks any more what became of the task."""
        self.kill()
        self.answers.close()
        self.output_path.unlink(missing_ok=True)

    def outcome(self) -> Outcome:
        """Read what became of the task, and clear away."""
        answer: Outcome | None = None
        with contextlib.suppress(
            EOFError, OSError, msgspec.MsgspecError
        ):  # then it says why it ended
            if self.answers.poll():
                answer = _ANSWERS.decode(self.answers.recv_bytes())
        stack = self._stack() if self.is_late and answer is None else ""
        self.kill() if self.is_late or answer else self.process.join()
        self.answers.close()
        output = _drained(self.output_path)
        match answer:
            case WorkDone(value=value):
                return WorkDone(value, output)
            case Refused(message=message, exit_code=code):
                return Refused(message, code, output)
            case WorkEnded(message=message, is_ours=ours):
                return WorkEnded(message, output, ours)
            case None:
                return WorkEnded(self._why(output), output, stack=stack)

    def _stack(self) -> str:
        """Have the process print its Python stack, and read what it printed."""
        before = self.output_path.stat().st_size
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid or 0, _STACK_SIGNAL)
        time.sleep(_STACK_S)
        return self.output_path.read_bytes()[before:].decode(errors="replace")

    def _why(self, output: str) -> str:
        name = self.task.name or self.task.job
        if self.is_late:
            return f"{name}: took more than {self.limits.seconds:g} s; give it more time or a smaller model"
        code = self.process.exitcode or 0
        if -code == signal.SIGKILL or is_full(RuntimeError(output)):
            return _too_big(name, self.limits)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
        return f"{name}: its process ended with {how}" + (f", last saying: {last}" if last else "")


def _some_ended(running: list[_Running]) -> list[_Running]:
    """Wait until at least one process has answered, ended or run out of time."""
    rest = max(0.0, min(each.deadline for each in running) - time.monotonic())
    ready = wait(
        [source for each in running for source in (each.answers, each.process.sentinel)], rest
    )
    now = time.monotonic()
    ended = []
    for each in running:
        if each.answers in ready or each.process.sentinel in ready:
            ended.append(each)
        elif each.deadline <= now:
            each.is_late = True
            ended.append(each)
    return ended


def _start(task: WorkTask, limits: WorkLimits) -> _Running:
    context = _context()
    ours, theirs = context.Pipe(duplex=False)
    handle, path = tempfile.mkstemp(prefix="flashinfer-bench-", suffix=".log")
    os.close(handle)
    process = context.Process(target=_work, args=(task, limits, theirs, path), daemon=True)
    try:
        process.start()
    except BaseException:  # an interruption too, while the server imports torch
        ours.close()
        Path(path).unlink(missing_ok=True)
        raise
    theirs.close()
    deadline = time.monotonic() + limits.seconds
    return _Running(task, limits, process, ours, deadline, Path(path))


def _context() -> Any:
    """A server that has imported torch and forks, where there is such a thing."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    _start_server()
    return context


def _start_server() -> None:
    """Start the server deaf to Ctrl-C, which is for us: else it prints a traceback of its imports."""
    from multiprocessing import forkserver, resource_tracker  # noqa: PLC0415  # where there is one

    resource_tracker.ensure_running()  # first: starting it unblocks what is blocked here
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _room_for_a_socket():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _room_for_a_socket() -> Iterator[None]:
    """Have the server's socket lie in /tmp where TMPDIR is too long for the name of one."""
    usual = tempfile.gettempdir()
    if len(os.fsencode(usual)) > _LONGEST_SOCKET_FOLDER:
        tempfile.tempdir = "/tmp"  # noqa: S108  # a folder of its own is made there
    try:
        yield
    finally:
        tempfile.tempdir = usual


def _drained(path: Path) -> str:
    """Read what a process printed and remove it."""
    with contextlib.suppress(OSError):
        text = path.read_text(encoding="utf-8", errors="replace")
        path.unlink()
        return text[-_OUTPUT_KEPT:]
    return ""


def _too_big(name: str, limits: WorkLimits) -> str:
    return (
        f"{name}: needs more memory than the {limits.memory_bytes / GIB:.3g} GiB it is given; "
        "raise the limit with --memory-limit"
    )


# In the new process.


def _work(task: WorkTask, limits: WorkLimits, answers: Connection, output_path: str) -> None:
    """Do a task under its limits and send what became of it."""
    if not _is_awaited(answers):
        return
    _confine(limits, output_path)
    outcome = _done(task, limits)
    sys.stdout.flush()
    try:
        answers.send_bytes(msgspec.json.encode(outcome))
    except (TypeError, ValueError) as error:
        fault = WorkEnded(f"{task.name or task.job}: its result is no JSON: {error}", is_ours=True)
        answers.send_bytes(msgspec.json.encode(fault))
    answers.close()


def _is_awaited(answers: Connection) -> bool:
    """Tell whether anyone will read the answer; who was interrupted before we began will not."""
    watch = select.poll()
    watch.register(answers.fileno(), 0)
    return not watch.poll(0)


def _confine(limits: WorkLimits, output_path: str) -> None:
    os.setsid()  # so that what it starts can be ended with it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the server's, for Ctrl-C
    log = os.open(output_path, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a text file here
    faulthandler.disable()
    faulthandler.register(_STACK_SIGNAL, file=2, all_threads=False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (limits.memory_bytes, limits.memory_bytes))
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + 30)  # should whoever waits be gone
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    import torch  # noqa: PLC0415  # here only: the caller has none

    torch.set_num_threads(limits.threads)


def _done(task: WorkTask, limits: WorkLimits) -> Outcome:
    name = task.name or task.job
    try:
        return WorkDone(_function(task.job)(*task.args, **task.kwargs))
    except BenchError as error:
        return Refused(str(error), error.exit_code)
    except SystemExit as error:
        return Refused(f"{name}: its code ends the process: exit({error.code!r})")
    except BaseException as error:  # noqa: BLE001  # the outermost frame: SystemExit of a file included
        if is_full(error):
            return WorkEnded(_too_big(name, limits))
        traceback.print_exc()
        last = " ".join(str(error).split())
        return WorkEnded(f"{name}: {type(error).__name__}: {last}", is_ours=True)


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


Emit = Literal["kernels", "fusions", "layers", "all"]

_LEVELS_BY_EMIT: dict[Emit, tuple[Level, ...]] = {
    "kernels": LEVELS[:1],
    "fusions": LEVELS[:2],
    "layers": LEVELS[:3],
    "all": LEVELS,
}


@dataclass(frozen=True, slots=True)
class DecomposeRequest:
    """Take one file apart and write what comes of it."""

    file: Path
    directory: Path
    """Where the decomposition goes; the folder itself."""
    emit: Emit = "kernels"
    """Up to which level pieces become definitions of the dataset."""
    is_verified: bool = True
    overrides: Path | None = None
    seeds: int = 2
    memory_limit_bytes: int | None = None
    """What verification may take; a larger model is verified on a smaller copy, and the report says so."""
    run_as: RunAs = field(default_factory=RunAs)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Levels whose pieces become definitions."""
        return _LEVELS_BY_EMIT[self.emit]
