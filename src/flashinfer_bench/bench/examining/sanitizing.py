"""`sanitize`: one call of a solution under tools that notice what it does wrong, right result or not."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.examining.keeping import kept_report
from flashinfer_bench.bench.examining.process import (
    ExaminationError,
    ExaminedJob,
    Examiner,
    examiner_of,
    with_flags,
)
from flashinfer_bench.bench.examining.sanitizer_logs import (
    compute_sanitizer_findings,
    gcc_findings,
    valgrind_findings,
)
from flashinfer_bench.bench.examining.sanitizer_values import (
    SanitizerFinding,
    SanitizerReport,
    SanitizerRun,
    SanitizerTool,
    overall,
)
from flashinfer_bench.bench.examining.tool_answers import ToolUnavailableError
from flashinfer_bench.bench.parent.candidates import Tooling
from flashinfer_bench.bench.parent.pool import device_names
from flashinfer_bench.bench.protocol import CALL_FILE, BecomeProgram, Wrapping
from flashinfer_bench.bench.sandbox.policy import Missing
from flashinfer_bench.compile.compiler import compiler_command, file_identity, missing_compiler
from flashinfer_bench.compile.cuda import needs_nvcc
from flashinfer_bench.data import settings
from flashinfer_bench.errors import BuildError, UsageError
from flashinfer_bench.tensors.machine import package_version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.bench.parent.events import Progress
    from flashinfer_bench.data import Definition, Solution, TraceSet, Workload

TOOLS: tuple[SanitizerTool, ...] = get_args(SanitizerTool)
OF_DEVICES: tuple[SanitizerTool, ...] = ("memcheck", "racecheck", "initcheck", "synccheck")
OF_PROCESSORS: tuple[SanitizerTool, ...] = ("address", "undefined", "uninitialised")
_PADDING = 1 << 20
"""Bytes kept free behind each allocation: else a write beyond one lands in the next, which is no fault."""
_FAULTS = 86
"""The exit code that tools are told to end with where they found something."""
_OPTIONS = "halt_on_error=0:print_stacktrace=1:log_path={scratch}/faults"
_ASAN_OPTIONS = f"{_OPTIONS}:detect_leaks=0:exitcode={_FAULTS}"
_CHECKED = ("-fsanitize=address,undefined", "-fsanitize-recover=all", "-fno-omit-frame-pointer")
_PORTABLE = ("-march=x86-64-v3", "-g", "-O1")
"""Valgrind knows no AVX-512; with -O1 lines are those of the source."""
_PLACES = ("/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda-*/bin/compute-sanitizer")
_INSTALL = "it comes with the CUDA toolkit: `apt-get install cuda-sanitizer-13-0`, conda `cuda-sanitizer-api`"
_DRIVER = Path(__file__).with_name("one_call.cpp")


def sanitize(
    trace_set: TraceSet,
    definition: Definition,
    solution: Solution,
    workload: Workload,
    *,
    tools: Sequence[SanitizerTool] | None = None,
    device: str = "auto",
    config: BenchmarkConfig | None = None,
    keep_in: Path | None = None,
    observe: Callable[[Progress], None] = lambda _: None,
    on_tool: Callable[[SanitizerTool], None] = lambda _: None,
    stop: int | None = None,
) -> SanitizerReport:
    """Look for faults in one call of a solution on one workload, with each tool in turn.

    On a CUDA device the tools are compute-sanitizer's; on a CPU, of C++ bound with tvm-ffi, the compiler's sanitizers
    and valgrind. A tool that cannot look is among `runs` as `unavailable`, with what would help: a report is `clean`
    only where one looked. `on_tool` is told which one is next. When the descriptor `stop` can be read, all of it ends
    with `Cancelled`. Raises `UsageError` for a tool that is of the other kind of device.
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
    chosen = _chosen(subject, tools)
    findings: list[SanitizerFinding] = []
    runs: list[SanitizerRun] = []
    reports: dict[str, bytes] = {}
    with examiner_of(subject, observe=observe, stop=stop) as examiner:
        for tool in chosen:
            on_tool(tool)
            run, found, report = _looked(examiner, tool)
            runs.append(run)
            findings += found
            if report:
                reports[tool] = report
        kept = (
            kept_report(keep_in, tool, text, ".sanitizer.log") for tool, text in reports.items()
        )
        return SanitizerReport(
            definition=definition.name,
            solution=solution.name,
            solution_hash=solution.hash(),
            workload=workload.uuid,
            axes=dict(workload.axes),
            device=device_name,
            hardware=examiner.hardware,
            status=overall(tuple(runs)),
            findings=tuple(findings),
            runs=tuple(runs),
            reports=tuple(each for each in kept if each is not None),
            sandbox=examiner.sandbox,
            sandbox_missing=examiner.sandbox_missing,
        )


def _chosen(
    subject: ExaminedJob, tools: Sequence[SanitizerTool] | None
) -> tuple[SanitizerTool, ...]:
    known = OF_DEVICES if subject.kind == "cuda" else OF_PROCESSORS
    wanted = tuple(dict.fromkeys(tools)) if tools else known
    foreign = [tool for tool in wanted if tool not in known]
    if foreign:
        raise UsageError(
            f"{', '.join(foreign)}: not on {subject.device}; there: {', '.join(known)}"
        )
    return wanted


def _looked(
    examiner: Examiner, tool: SanitizerTool
) -> tuple[SanitizerRun, tuple[SanitizerFinding, ...], bytes]:
    """Have one tool look, and say how that ended."""
    try:
        if tool in OF_DEVICES:
            by, found, report = _under_compute_sanitizer(examiner, tool)
        elif tool == "uninitialised":
            by, found, report = _under_valgrind(examiner)
        else:
            by, found, report = _under_gcc(examiner, tool)
    except ToolUnavailableError as error:
        run = SanitizerRun(tool=tool, status="unavailable", why_not=str(error), remedy=error.remedy)
        return run, (), b""
    except (ExaminationError, BuildError) as error:
        why = " ".join(str(error).split())
        return SanitizerRun(tool=tool, status="failed", why_not=why), (), error.log.encode()
    status = "faults" if found else "clean"
    return SanitizerRun(tool=tool, by=by, status=status), found, report  # type: ignore[arg-type]  # a literal


# ------------------------------------------------------------------ on a device


def _under_compute_sanitizer(
    examiner: Examiner, tool: SanitizerTool
) -> tuple[str, tuple[SanitizerFinding, ...], bytes]:
    program = _compute_sanitizer()
    words = (
        *(program, "--tool", tool, "--error-exitcode", str(_FAULTS), "--print-limit", "1000"),
        *("--show-backtrace", "device", "--log-file", "{scratch}/faults.log"),
        *(("--padding", str(_PADDING)) if tool == "memcheck" else ()),
    )
    environment = (
        ("HOME", "{scratch}"),
        ("TMPDIR", "{scratch}"),
        (
            "PYTORCH_NO_CUDA_MEMORY_CACHING",
            "1",
        ),  # each tensor an allocation, with nothing beside it
    )
    tooling = Tooling(Wrapping(words, environment), opens_device_first=True)
    solution = examiner.subject.solution
    if solution.spec.language.value in ("cpp", "cuda") and needs_nvcc(solution):
        solution = with_flags(solution, nvcc=("-lineinfo",))
    ended: ExaminationError | None = None
    with examiner.started(solution, tooling=tooling) as process:
        if process.absence is not None:
            raise ToolUnavailableError(process.absence)
        try:
            process.examine("exact", warm_calls=0)
            process.finish()
        except ExaminationError as error:  # a fault that ended the call is in the log, too
            ended = error
            with suppress(ExaminationError):
                process.finish()
        log = (process.read("faults.log") or b"").decode(errors="replace")
        code = (
            None
            if process.worker.status is None
            else os.waitstatus_to_exitcode(process.worker.status)
        )
    found = compute_sanitizer_findings(tool, log)
    if not found and ended is not None:
        raise ended
    if not found and code == _FAULTS:
        raise ExaminationError(
            f"compute-sanitizer found faults that could not be read: {log[-400:]}", log=log
        )
    if not log.strip():
        raise ExaminationError("compute-sanitizer wrote no log")
    return "compute-sanitizer", found, log.encode()


def _compute_sanitizer() -> str:
    found = shutil.which("compute-sanitizer")
    if found is not None:
        return found
    for pattern in _PLACES:
        places = sorted(Path("/").glob(pattern.removeprefix("/")), reverse=True)
        if places:
            return str(places[0])
    raise ToolUnavailableError("compute-sanitizer is not here", _INSTALL)


# ------------------------------------------------------------------ on a processor


def _under_gcc(
    examiner: Examiner, tool: SanitizerTool
) -> tuple[str, tuple[SanitizerFinding, ...], bytes]:
    _require_native(examiner.subject)
    driver = _built_driver(_CHECKED)
    environment = (("ASAN_OPTIONS", _ASAN_OPTIONS), ("UBSAN_OPTIONS", _OPTIONS))
    reserved = Missing(
        "limits", "AddressSanitizer reserves 16 TB of addresses: memory is not bounded"
    )
    flagged = with_flags(
        examiner.subject.solution, compiler=("-g", "-O1", *_CHECKED), linker=_CHECKED[:1]
    )
    look = _NativeTool(
        driver, "faults.*", environment=environment, tooling=Tooling(lifted=(reserved,))
    )
    log = _called(examiner, flagged, look)
    sources = [source.path for source in examiner.subject.solution.sources]
    found = tuple(each for each in gcc_findings(log, sources) if each.tool == tool)
    return f"{Path((compiler_command() or ['c++'])[0]).name} -fsanitize={tool}", found, log.encode()


def _under_valgrind(examiner: Examiner) -> tuple[str, tuple[SanitizerFinding, ...], bytes]:
    _require_native(examiner.subject)
    program = shutil.which("valgrind")
    if program is None:
        raise ToolUnavailableError(
            "valgrind is not here", "apt-get install valgrind, or dnf install valgrind"
        )
    words = (
        *(program, "--xml=yes", "--xml-file={scratch}/faults.xml", "--track-origins=yes"),
        *("--vgdb=no", "--child-silent-after-fork=yes", "--run-libc-freeres=no"),
    )
    flagged = with_flags(examiner.subject.solution, compiler=_PORTABLE)
    log = _called(examiner, flagged, _NativeTool(_built_driver(()), "faults.xml", words))
    sources = [source.path for source in examiner.subject.solution.sources]
    return "valgrind", valgrind_findings(log, sources), log.encode()


def _require_native(subject: ExaminedJob) -> None:
    """Only C++ that exports through tvm-ffi can be called without Python around it."""
    solution = subject.solution
    binding = solution.spec.effective_binding
    if solution.spec.language.value != "cpp" or binding is None or binding.value != "tvm-ffi":
        kind = f"{solution.spec.language.value}{f' bound with {binding.value}' if binding else ''}"
        raise ToolUnavailableError(
            f"on a CPU only C++ bound with tvm-ffi is looked at, and this is {kind}",
            "sanitize kernels for a GPU on a machine with one",
        )
    lack = missing_compiler()
    if lack is not None:
        raise ToolUnavailableError(lack)


@dataclass(frozen=True, slots=True)
class _NativeTool:
    """What one call is made under, and where that writes."""

    driver: Path
    files: str
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    tooling: Tooling = field(default_factory=Tooling)


def _called(examiner: Examiner, solution: Solution, tool: _NativeTool) -> str:
    """Compile with a tool's flags, become the program that makes one call, and give what the tool wrote."""
    subject = examiner.subject
    spec = subject.solution.spec
    named = {"prepare": spec.prepare, "plan": spec.plan}
    with examiner.started(solution, tooling=tool.tooling, only_compiles=True) as process:
        place = process.scratch / "one_call"
        shutil.copy2(tool.driver, place)
        request = BecomeProgram(
            examiner.launcher.new_id(),
            workload=examiner.open_workload(),
            seed=examiner.pools_seed(),
            call_seed=examiner.call_seeds(1)[0],
            command=(*tool.command, str(place), "{binary}", f"{{scratch}}/{CALL_FILE}"),
            environment=tool.environment,
            takes_outputs=spec.destination_passing_style,
            entry=subject.solution.get_entry_symbol(),
            phases=tuple((phase, named[phase] or "") for phase in subject.phases),
        )
        process.become(request)
        written = sorted(process.scratch.glob(tool.files))
        log = "\n".join(
            (process.read(each.name) or b"").decode(errors="replace") for each in written
        )
        said, code = process.said(), os.waitstatus_to_exitcode(process.worker.status or 0)
    if code not in (0, _FAULTS) and not log.strip():
        raise ExaminationError(
            f"the call did not return: {said.strip() or process.worker.ending}", log=said
        )
    return log


def _built_driver(flags: tuple[str, ...]) -> Path:
    """Compile the program that makes the call, once for each compiler and version of tvm-ffi."""
    from tvm_ffi import libinfo  # noqa: PLC0415  # an extra

    compiler = compiler_command() or ["c++"]
    library = Path(libinfo.find_libtvm_ffi())
    facts = [
        *flags,
        *map(file_identity, compiler),
        package_version("apache-tvm-ffi"),
        _DRIVER.read_text(),
    ]
    digest = hashlib.sha256("\0".join([*facts, str(library)]).encode()).hexdigest()[:32]
    place = settings.cache_path() / "sanitizing" / digest
    if place.is_file():
        return place
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = place.with_name(f".{digest}.{os.getpid()}")
    command = [
        *(*compiler, "-std=c++17", "-g", "-O1", *flags, str(_DRIVER), "-o", str(draft)),
        *(
            f"-I{folder}"
            for folder in (libinfo.find_include_path(), libinfo.find_dlpack_include_path())
        ),
        *(f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-ltvm_ffi", "-ldl"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise ToolUnavailableError(
            f"the compiler makes no program with {' '.join(flags) or 'these flags'}: {lines[-1] if lines else '?'}",
            "install the compiler's sanitizer libraries (Debian: libasan and libubsan come with g++)",
        )
    draft.replace(place)
    return place
