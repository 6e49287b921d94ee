"""`profile`: one call of a solution under the best profiler that answers, and what compilers know without a call."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, get_args

from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.examining import compiled_facts, nsight_compute
from flashinfer_bench.bench.examining.activity import kernels_of_records, kernels_of_trace
from flashinfer_bench.bench.examining.keeping import kept_report
from flashinfer_bench.bench.examining.process import (
    ExaminationError,
    ExaminedJob,
    Examiner,
    examiner_of,
    with_flags,
)
from flashinfer_bench.bench.examining.profile_values import (
    ProfiledKernel,
    ProfileTool,
    SolutionProfile,
    ToolAttempt,
)
from flashinfer_bench.bench.examining.tool_answers import (
    ToolFindings,
    ToolUnavailableError,
    completed,
)
from flashinfer_bench.bench.parent.candidates import Tooling
from flashinfer_bench.bench.parent.pool import device_names
from flashinfer_bench.bench.protocol import CUPTI_FILE, TORCH_FILE, BuildTold, Wrapping
from flashinfer_bench.compile.architectures import DEFAULT_ARCH
from flashinfer_bench.compile.compiler import compiler_command
from flashinfer_bench.compile.cuda import needs_nvcc
from flashinfer_bench.errors import ToolchainMissingError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.data import Definition, Solution, TraceSet, Workload

Choice = Literal["auto", "ncu", "cupti", "torch", "ptxas", "remarks"]
CHOICES: tuple[str, ...] = get_args(Choice)
WARM_CALLS = 3
_OF_DEVICES: tuple[ProfileTool, ...] = ("ncu", "cupti", "torch")
_NS_PER_US = 1e3
_INSTALL_CUPTI = "pip install 'flashinfer-bench[cuda]'"
_ENDS = {"ncu": ".ncu-rep", "cupti": ".activity.json", "torch": ".trace.json", "log": ".log"}


@dataclass(frozen=True, slots=True)
class _Rung:
    """A tool, and what it takes to ask it."""

    tool: ProfileTool
    ask: Callable[[Examiner], ToolFindings]


def profile(
    trace_set: TraceSet,
    definition: Definition,
    solution: Solution,
    workload: Workload,
    *,
    tool: Choice = "auto",
    device: str = "auto",
    config: BenchmarkConfig | None = None,
    keep_in: Path | None = None,
    observe: Callable[[Progress], None] = lambda _: None,
    stop: int | None = None,
) -> SolutionProfile:
    """Profile one warm call of a solution on one workload; times are in microseconds.

    The solution is built, sandboxed, fed and held to its deadline as when it is timed. With `auto` the tools are
    asked from the best down, until one answers; what the compiler knows is added. Each tool that did not answer is
    among `attempts`, with the reason and what would help. Tools' own reports are kept in `keep_in`, by their hash.
    When the descriptor `stop` can be read, all of it ends with `Cancelled`. Raises `BuildError` where the solution
    does not build, `UsageError` where the tool says nothing of such a solution.
    """
    device_name = device_names(device)[0]
    subject = ExaminedJob(
        definition=definition,
        solution=solution,
        workload=workload,
        device=device_name,
        roots=tuple(str(root) for root in trace_set.roots),
        config=config or BenchmarkConfig.default(),
    )
    definition.require_workload(workload)
    rungs = _rungs(subject, tool)
    with examiner_of(subject, observe=observe, stop=stop) as examiner:
        answers, attempts = _climbed(rungs, examiner, tool)
        return _told(examiner, answers, attempts, keep_in)


def _rungs(subject: ExaminedJob, tool: str) -> list[_Rung]:
    """List the tools that say something of a solution on this device, the best first."""
    is_for_gpu = _is_for_gpu(subject.solution)
    rungs: list[_Rung] = []
    if subject.kind == "cuda":
        rungs += [_Rung("ncu", _ask_ncu), _Rung("cupti", _ask_cupti), _Rung("torch", _ask_torch)]
    elif not is_for_gpu:
        rungs.append(_Rung("torch", _ask_torch))
    if is_for_gpu:
        rungs.append(_Rung("ptxas", _ask_ptxas))
    elif subject.solution.spec.language == "cpp":
        rungs.append(_Rung("remarks", _ask_for_remarks))
    chosen = [rung for rung in rungs if tool in ("auto", rung.tool)]
    if not chosen:
        known = ", ".join(rung.tool for rung in rungs) or "none"
        raise UsageError(
            f"{tool} says nothing of {subject.solution.name} ({subject.solution.spec.language.value}) on "
            f"{subject.device}; what does: {known}"
        )
    return chosen


def _is_for_gpu(solution: Solution) -> bool:
    language = solution.spec.language.value
    return language in ("triton", "tilelang") or (
        language in ("cpp", "cuda") and needs_nvcc(solution)
    )


def _climbed(
    rungs: Sequence[_Rung], examiner: Examiner, tool: str
) -> tuple[dict[ProfileTool, ToolFindings], list[ToolAttempt]]:
    """Ask down the list: of the tools that need a call the first that answers, and then the compiler."""
    answers: dict[ProfileTool, ToolFindings] = {}
    attempts = list(_without_device(examiner.subject, tool))
    for rung in rungs:
        needs_call = rung.tool not in ("ptxas", "remarks")
        if needs_call and answers:
            continue
        try:
            answers[rung.tool] = rung.ask(examiner)
            attempts.append(ToolAttempt(rung.tool, has_answered=True))
        except ToolUnavailableError as error:
            attempts.append(ToolAttempt(rung.tool, False, str(error), error.remedy))
        except ToolchainMissingError as error:
            attempts.append(ToolAttempt(rung.tool, False, str(error)))
        except ExaminationError as error:
            attempts.append(ToolAttempt(rung.tool, False, _with_last_line(error)))
    if not answers and tool != "auto":
        attempt = attempts[-1]
        remedy = f"; {attempt.remedy}" if attempt.remedy else ""
        raise ExaminationError(f"{attempt.tool}: {attempt.why_not}{remedy}")
    return answers, attempts


def _without_device(subject: ExaminedJob, tool: str) -> Iterator[ToolAttempt]:
    """Say of the tools that look at a device why they were not asked."""
    if subject.kind == "cpu" and tool == "auto" and _is_for_gpu(subject.solution):
        remedy = "profile it on a machine with a GPU"
        for name in _OF_DEVICES:
            yield ToolAttempt(name, False, "the device is cpu: no kernel runs", remedy)


def _with_last_line(error: ExaminationError) -> str:
    lines = [line.strip() for line in error.log.splitlines() if line.strip()]
    said = str(error)
    return f"{said}: {lines[-1]}" if lines and lines[-1] not in said else said


def _told(
    examiner: Examiner,
    answers: dict[ProfileTool, ToolFindings],
    attempts: Sequence[ToolAttempt],
    keep_in: Path | None,
) -> SolutionProfile:
    subject = examiner.subject
    called = [answer for tool, answer in answers.items() if tool not in ("ptxas", "remarks")]
    static = answers.get("ptxas", ToolFindings()).kernels
    kernels = completed(called[0].kernels, static) if called else static
    reports = [
        kept
        for answer in answers.values()
        for name, content in answer.reports.items()
        if (kept := kept_report(keep_in, name, content, _ENDS[name])) is not None
    ]
    return SolutionProfile(
        definition=subject.definition.name,
        solution=subject.solution.name,
        solution_hash=subject.solution.hash(),
        workload=subject.workload.uuid,
        axes=dict(subject.workload.axes),
        device=subject.device,
        hardware=examiner.hardware,
        tool=next(iter(answers), None),
        kernels=tuple(kernels),
        call_us=called[0].call_us if called else None,
        remarks=tuple(each for answer in answers.values() for each in answer.remarks),
        attempts=tuple(attempts),
        notes=tuple(note for answer in answers.values() for note in answer.notes),
        reports=tuple(reports),
        warm_calls=WARM_CALLS if called else 0,
        sandbox=examiner.sandbox,
        sandbox_missing=examiner.sandbox_missing,
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


# ------------------------------------------------------------------ the tools


def _ask_ncu(examiner: Examiner) -> ToolFindings:
    program = nsight_compute.find_ncu()
    tooling = Tooling(
        Wrapping(nsight_compute.command(program), (("HOME", "{scratch}"), ("TMPDIR", "{scratch}"))),
        nsight_compute.lifted(),
        opens_device_first=True,
    )
    with examiner.started(tooling=tooling) as process:
        try:
            examined = process.examine("markers", warm_calls=WARM_CALLS)
            process.finish()
        except ExaminationError as error:
            if "==ERROR==" in error.log:
                raise nsight_compute.failure(error.log) from error
            raise
        report, log = process.read(nsight_compute.REPORT), process.said()
    if report is None:
        raise nsight_compute.failure(log)
    kernels = nsight_compute.kernels_of(program, report)
    notes = (
        "ncu runs each kernel several times, with cold caches and clocks as they are: `time` is that of a kernel alone",
        "threads that CUDA and ncu started before the sandbox was in force are not in it",
    )
    return ToolFindings(
        kernels, examined.elapsed_ns / _NS_PER_US, notes=notes, reports={"ncu": report}
    )


def _ask_cupti(examiner: Examiner) -> ToolFindings:
    if importlib.util.find_spec("cupti") is None:
        raise ToolUnavailableError("cupti-python is not installed", _INSTALL_CUPTI)
    with examiner.started(tooling=Tooling()) as process:
        examined = process.examine("cupti", warm_calls=WARM_CALLS)
        records = process.read(CUPTI_FILE)
    if records is None:
        raise ToolUnavailableError("CUPTI wrote nothing")
    kernels = kernels_of_records(records)
    if not kernels:
        raise ToolUnavailableError("CUPTI saw no kernel in the call")
    return ToolFindings(kernels, examined.elapsed_ns / _NS_PER_US, reports={"cupti": records})


def _ask_torch(examiner: Examiner) -> ToolFindings:
    with examiner.started(tooling=Tooling()) as process:
        process.examine("torch", warm_calls=WARM_CALLS)
        trace = process.read(TORCH_FILE)
    if trace is None:
        raise ToolUnavailableError("torch's profiler wrote nothing")
    kernels, call_us = kernels_of_trace(trace)
    notes = []
    if examiner.subject.kind == "cuda" and kernels:
        notes.append(
            "occupancy is what torch's profiler estimates from registers, shared memory and blocks"
        )
    if not kernels:
        notes.append(
            "the call ran no operation of torch: torch's profiler tells how long it took, and nothing within"
        )
    return ToolFindings(kernels, call_us, notes=tuple(notes), reports={"torch": trace})


def _ask_ptxas(examiner: Examiner) -> ToolFindings:
    """Have the kernels compiled, for the device's own architecture, and say what each asks for."""
    subject, solution = examiner.subject, examiner.subject.solution
    arch = subject.config.arch or examiner.own_arch or DEFAULT_ARCH
    note = f"registers, spills and shared memory are what the compiler reserves for {arch}"
    if solution.spec.language.value == "tilelang":
        raise ToolUnavailableError("TileLang keeps no binary of its kernels that could be read")
    if needs_nvcc(solution):
        told = _compiled(examiner, compiled_facts.NVCC_FLAGS, arch)
        kernels = compiled_facts.kernels_of_ptxas(told.log)
        if not kernels:
            raise ToolUnavailableError("ptxas names no kernel of it")
        counted = told if told.instructions else _compiled(examiner, compiled_facts.PTX_FLAGS, arch)
        return _reserved(kernels, counted, note, told.log)
    with examiner.started(tooling=Tooling(), arch=arch) as process:
        if examiner.own_arch is not None:
            process.examine("none", warm_calls=0)  # Triton compiles at the first call
        told = process.tell_build(counts_instructions=True)
    kernels = compiled_facts.kernels_of_resources(told.resources)
    if not kernels:
        why = told.why_no_resources or process.absence or "cuobjdump names no kernel"
        raise ToolUnavailableError(why)
    return _reserved(kernels, told, note, told.resources)


def _compiled(examiner: Examiner, flags: Sequence[str], arch: str) -> BuildTold:
    flagged = with_flags(examiner.subject.solution, nvcc=flags)
    with examiner.started(flagged, tooling=Tooling(), only_compiles=True, arch=arch) as process:
        return process.tell_build(counts_instructions=True)


def _reserved(
    kernels: Sequence[ProfiledKernel], counted: BuildTold, note: str, log: str
) -> ToolFindings:
    """Put together what the compiler reserves and what stands in the code; say where that is not SASS."""
    notes = [note]
    if counted.why_no_sass:
        where = "counted in PTX, before spills" if counted.instructions else "not counted"
        notes.append(f"instructions are {where}: {counted.why_no_sass}")
    found = compiled_facts.with_instructions(kernels, counted.instructions)
    return ToolFindings(found, notes=tuple(notes), reports={"log": log.encode()})


def _ask_for_remarks(examiner: Examiner) -> ToolFindings:
    """Compile once more and have the compiler say which loops it vectorised."""
    flags = compiled_facts.CLANG_FLAGS if _is_clang() else compiled_facts.GCC_FLAGS
    solution = examiner.subject.solution
    flagged = with_flags(solution, compiler=flags)
    with examiner.started(flagged, tooling=Tooling(), only_compiles=True) as process:
        log = process.tell_build().log
    remarks = compiled_facts.remarks_of(log, (source.path for source in solution.sources))
    return ToolFindings(remarks=remarks, reports={"log": log.encode()})


@functools.cache
def _is_clang() -> bool:
    command = compiler_command()
    if command is None:
        return False
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return "clang" in done.stdout
