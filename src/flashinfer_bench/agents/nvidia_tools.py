"""Nsight Compute and compute-sanitizer under the names and in the form that other people's agents call.

Answers are texts, and errors are texts that begin with `ERROR:`. `profile` and `sanitize` of the command line answer
with values, and run the solution in its sandbox; these do not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from flashinfer_bench.data import Solution, Trace, TraceSet, Workload, settings
from flashinfer_bench.errors import BenchError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Sequence

MARKER = "flashinfer_bench_ncu_profile"
"""The range of the call that is looked at."""
_PAGES = ("raw", "details", "source")
SanitizerType = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
_SANITIZERS: tuple[SanitizerType, ...] = ("memcheck", "racecheck", "initcheck", "synccheck")
_FOUND = 86
"""What the sanitizer ends with where it found something; by itself it ends as the program does."""
_LIST_TIMEOUT_S = 10
_RUNNER = "flashinfer_bench.agents._solution_runner"


Kind = TypeVar("Kind", Solution, Workload, Trace)


class _ToolError(Exception):
    """Why there is no answer."""


def flashinfer_bench_list_ncu_options(ncu_path: str = "ncu") -> str:
    """List the sets and sections that Nsight Compute can collect.

    Parameters
    ----------
    ncu_path : str
        The program, or its path.
    """
    try:
        _require(ncu_path)
        parts = []
        for option in ("--list-sets", "--list-sections"):
            done = _run([ncu_path, option], _LIST_TIMEOUT_S)
            parts.append(f"{option.removeprefix('--list-')}:\n{done.stdout}{done.stderr}".rstrip())
        return "\n\n".join(parts)
    except _ToolError as error:
        return f"ERROR: {error}"


def flashinfer_bench_run_ncu(  # the existing system's order
    solution: Solution | str,
    workload: Workload | str,
    *,
    device: str = "cuda:0",
    trace_set_path: str | None = None,
    set: str = "detailed",  # noqa: A002  # the existing system's name
    sections: list[str] | None = None,
    kernel_name: str | None = None,
    page: Literal["raw", "details", "source"] = "details",
    ncu_path: str = "ncu",
    timeout: int = 60,
    tmpdir: str | None = None,
    max_lines: int | None = None,
) -> str:
    """Profile one warm call of a solution with Nsight Compute, and give its report as text.

    Parameters
    ----------
    solution : Solution | str
        A solution, or the path of its JSON file.
    workload : Workload | str
        A workload, or the path of its JSON file.
    device : str
        The card.
    trace_set_path : str | None
        The dataset with the definition. Default: FIB_DATASET_PATH.
    set : str
        The set of sections to collect; see the list of options.
    sections : list[str] | None
        More sections.
    kernel_name : str | None
        Only kernels of this name, or `regex:` and a pattern.
    page : Literal["raw", "details", "source"]
        Which page of the report.
    ncu_path : str
        The program, or its path.
    timeout : int
        Seconds until it is ended.
    tmpdir : str | None
        Where temporary files go.
    max_lines : int | None
        Lines of the report to keep.
    """
    try:
        _require_known("page", [page], _PAGES)
        _require(ncu_path)
        with tempfile.TemporaryDirectory(dir=tmpdir) as folder:
            runner = _runner(solution, workload, device, trace_set_path, Path(folder))
            wanted = [word for each in sections or () for word in ("--section", each)]
            named = ["--kernel-name", kernel_name] if kernel_name else []
            command = [
                *(ncu_path, "--page", page, "--set", set),
                *("--nvtx", "--nvtx-include", f"{MARKER}/"),
                *(*wanted, *named, "-f", *runner),
            ]
            done = _run(command, timeout)
        text = f"{done.stdout}{done.stderr}"
        _require_success(done.returncode, text)
        return _first_lines(text, max_lines)
    except _ToolError as error:
        return f"ERROR: {error}"


def flashinfer_bench_run_sanitizer(
    solution: Solution | str,
    workload: Workload | str,
    *,
    device: str = "cuda:0",
    trace_set_path: str | None = None,
    sanitizer_types: list[SanitizerType] | None = None,
    sanitizer_path: str = "compute-sanitizer",
    timeout: int = 300,
    tmpdir: str | None = None,
    max_lines: int | None = None,
) -> str:
    """Run a solution under compute-sanitizer, once for each of its tools, and give what they say.

    Parameters
    ----------
    solution : Solution | str
        A solution, or the path of its JSON file.
    workload : Workload | str
        A workload, or the path of its JSON file.
    device : str
        The card.
    trace_set_path : str | None
        The dataset with the definition. Default: FIB_DATASET_PATH.
    sanitizer_types : list[Literal["memcheck", "racecheck", "initcheck", "synccheck"]] | None
        The tools; all four where none is named.
    sanitizer_path : str
        The program, or its path.
    timeout : int
        Seconds until each is ended.
    tmpdir : str | None
        Where temporary files go.
    max_lines : int | None
        Lines to keep.
    """
    try:
        kinds = list(sanitizer_types or _SANITIZERS)
        _require_known("sanitizer", kinds, _SANITIZERS)
        _require(sanitizer_path)
        with tempfile.TemporaryDirectory(dir=tmpdir) as folder:
            runner = _runner(solution, workload, device, trace_set_path, Path(folder))
            parts = [_sanitized(sanitizer_path, each, runner, timeout) for each in kinds]
        return _first_lines("\n\n".join(parts), max_lines)
    except _ToolError as error:
        return f"ERROR: {error}"


def _sanitized(program: str, kind: str, runner: Sequence[str], timeout_s: int) -> str:
    """Run one tool; its verdict is that of its own exit code, and not the program's."""
    command = [program, "--tool", kind, "--error-exitcode", str(_FOUND), *runner]
    try:
        done = _run(command, timeout_s)
    except _ToolError as error:
        return f"=== {kind} ===\n{error}"
    verdicts = {0: "PASSED", _FOUND: "FAILED: it found errors"}
    verdict = verdicts.get(done.returncode, "NO VERDICT: the program itself failed")
    return (
        f"=== {kind} ===\nverdict: {verdict}\nreturn code: {done.returncode}\n"
        f"stdout:\n{done.stdout}\nstderr:\n{done.stderr}"
    )


def _runner(
    solution: Solution | str,
    workload: Workload | str,
    device: str,
    dataset: str | None,
    folder: Path,
) -> list[str]:
    """Write what the runner reads; give its command."""
    found = _entity(solution, Solution)
    size = _workload(workload)
    root = dataset or str(settings.dataset_path())
    try:
        definitions = TraceSet.from_path(root).definitions
    except (BenchError, OSError) as error:
        raise _ToolError(f"the dataset {root} cannot be read: {error}") from error
    if found.definition not in definitions:
        known = ", ".join(sorted(definitions))
        unknown = UnknownNameError("definition", found.definition, definitions)
        raise _ToolError(f"{unknown}; the dataset has {known}")
    files = {"definition": definitions[found.definition], "solution": found, "workload": size}
    for name, entity in files.items():
        (folder / f"{name}.json").write_text(entity.to_json(), encoding="utf-8")
    words = ["--data-dir", str(folder), "--device", device, "--trace-set-path", root]
    return [sys.executable, "-m", _RUNNER, *words]


def _workload(given: Workload | str) -> Workload:
    """Read a workload, or the one of a line of a dataset."""
    try:
        return _entity(given, Workload)
    except _ToolError:
        if isinstance(given, Workload) or not Path(given).is_file():
            raise
        return _entity(given, Trace).workload


def _entity(given: Kind | str, kind: type[Kind]) -> Kind:
    if isinstance(given, kind):
        return given
    try:
        return kind.model_validate_json(Path(str(given)).read_text(encoding="utf-8"))
    except OSError as error:
        raise _ToolError(f"{given}: {error.strerror or error}") from error
    except ValueError as error:
        raise _ToolError(f"{given} is no {kind.__name__.lower()}: {error}") from error


def _require_known(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    for each in names:
        if each not in known:
            raise _ToolError(f"{kind} {each!r} is none of {', '.join(known)}")


def _require_success(code: int, text: str) -> None:
    if code != 0:
        raise _ToolError(f"ncu ended with {code}:\n{text}")


def _require(program: str) -> None:
    if shutil.which(program) is None:
        raise _ToolError(f"{program} was not found; install it, or name its path")


def _run(command: Sequence[str], timeout_s: int) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env=settings.environment_copy(),
        )
    except subprocess.TimeoutExpired:
        raise _ToolError(f"{command[0]} did not end within {timeout_s} s") from None
    except OSError as error:
        raise _ToolError(f"{command[0]}: {error.strerror or error}") from error


def _first_lines(text: str, most: int | None) -> str:
    lines = text.splitlines()
    if most is None or len(lines) <= most:
        return text
    return "\n".join([*lines[:most], f"[{len(lines) - most} of {len(lines)} lines left out]"])
