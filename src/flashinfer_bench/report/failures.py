"""What a failed job's log says, as values: elements, compiler messages, the exception, the signal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.judging.diagnosis import Diagnosis  # noqa: TC001  # documents are made from its types
from flashinfer_bench.report.logs import headline, is_users_file, without_group_margin

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = r"[-+]?(?:nan|inf|\d[\d.]*(?:e[-+]?\d+)?)|True|False"
_OUTPUT = re.compile(r"output '(?P<output>[^']+)'")
_COUNT = re.compile(r"(?P<wrong>\d+) of (?P<all>\d+) elements")
_MISMATCH = re.compile(
    rf"^\s*at \[(?P<index>[\d, ]*)\]: (?:got (?P<got>{_NUMBER})|never written), expected (?P<expected>{_NUMBER})"
)
_COMPILER = re.compile(
    r"^(?P<file>[^\s:()][^:()\n]*)[:(](?P<line>\d+)\)?(?::(?P<column>\d+))?\s*:\s*"
    r"(?:(?P<level>fatal error|error|warning): (?P<message>.+)|(?P<linker>(?:undefined|multiple) .+))$"
)
_FRAME = re.compile(
    r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, | in )(?:in )?(?P<function>.*)$'
)
_HUNG = "it was here (the last call is the last line):"
_EXCEPTION = re.compile(r"^(?P<type>[^\W\d][\w.]*)(?:: (?P<message>.*))?$")
"""The line below the frames, whatever the class is called."""
_UNPARSED = re.compile(
    r'^[ \t]*File "(?P<file>[^"]+)", line (?P<line>\d+)\n(?:[ \t].*\n)*'
    r"(?P<type>SyntaxError|IndentationError|TabError): (?P<message>.*)$",
    re.MULTILINE,
)
"""A source that does not parse: its place is no frame."""
_SIGNAL = re.compile(r"ended by (?P<signal>SIG[A-Z0-9]+|signal \d+)")
_EXITED = re.compile(r"^its process exited with code (?P<code>\d+)$", re.MULTILINE)
_NOT_THE_ERROR = {
    "precision": re.compile(r"\bits error is \S+ times the reference's own"),
    "notes": re.compile(r"^notes count as failures here"),
    "tokens": re.compile(r"tokens lie outside what may be drawn|drawn as often as they should be"),
    "omissions": re.compile(r"are wrong in each of \d+ calls"),
    "indices": re.compile(r"\bindices are wrong$"),
    "sign_of_zero": re.compile(r"elements differ in the sign of zero"),
}
"""What decides where values are wrong though no element is too far off, by how the log says it."""
_MOST_MESSAGES = 20
_LONGEST_MESSAGE = 1_000
_RULES = {
    "INCORRECT_NUMERICAL": "tolerance",
    "INCORRECT_SHAPE": "shape",
    "INCORRECT_DTYPE": "dtype",
    "COMPILE_ERROR": "builds",
    "RUNTIME_ERROR": "returns",
    "TIMEOUT": "timeout",
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One element that differs; numbers have the six digits that a log has."""

    output: str | None
    index: tuple[int, ...]
    got: float | bool | None
    """None where nothing was written."""
    expected: float | bool


@dataclass(frozen=True, slots=True)
class CompilerMessage:
    """A line of a compiler that names a place."""

    file: str
    line: int
    column: int | None
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class ReportedException:
    """An exception, and the innermost place of its traceback that is in no library, where there is one."""

    type: str
    message: str
    file: str | None
    line: int | None


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A line of code."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job failed."""

    rule: str
    """What it broke: the code of a violation, else tolerance, shape, dtype, builds, returns or timeout.

    Where values are wrong by another rule than the tolerance: precision, notes, tokens, omissions, indices or
    sign_of_zero.
    """
    message: str
    """The line of the log that says what is wrong: of a traceback the exception, else the first one."""
    wrong_elements: int | None
    elements: int | None
    mismatches: tuple[Mismatch, ...]
    """The first elements that differ."""
    compiler: tuple[CompilerMessage, ...]
    """The first messages that name a place."""
    exception: ReportedException | None
    signal: str | None
    """The signal that ended its process, such as SIGSEGV."""
    hung_at: CodePlace | None = None
    """Where the solution's Python code was when its time was up; None in compiled code."""
    process_exit_code: int | None = None
    """With which its process ended itself."""
    diagnosis: Diagnosis | None = None
    """Of wrong values: where they lie, and the causes suspected, the most likely first."""


def failure_of(
    status: str, log: str, violations: Sequence[str] = (), diagnosis: Diagnosis | None = None
) -> Failure | None:
    """Read a log; None for a job that passed."""
    if status == "PASSED":
        return None
    lines = without_group_margin(log).splitlines()
    count = _COUNT.search(log)
    is_build = status == "COMPILE_ERROR"
    first = headline(log, limit=_LONGEST_MESSAGE)
    ended, exited = _SIGNAL.search(log), _EXITED.match(log)
    return Failure(
        rule=violations[0] if violations else _rule(status, first),
        message=first,
        wrong_elements=int(count["wrong"]) if count else None,
        elements=int(count["all"]) if count else None,
        mismatches=_mismatches(lines),
        compiler=_compiler(lines) if is_build else (),
        exception=_unparsed(log) or _raised(lines),
        signal=ended["signal"] if ended else None,
        hung_at=_hung_at(lines),
        process_exit_code=int(exited["code"]) if exited else None,
        diagnosis=diagnosis,
    )


def is_by_error(status: str, log: str, violations: Sequence[str] = ()) -> bool:
    """Tell whether the largest error says how good it was: of what failed by another rule it says nothing."""
    return not violations and _rule(status, headline(log)) in {"passed", "tolerance"}


def _rule(status: str, first: str) -> str:
    rule = _RULES.get(status, status.lower())
    others = (name for name, text in _NOT_THE_ERROR.items() if text.search(first))
    return next(others, rule) if rule == "tolerance" else rule


def _mismatches(lines: Sequence[str]) -> tuple[Mismatch, ...]:
    found: list[Mismatch] = []
    output: str | None = None
    for line in lines:
        if named := _OUTPUT.search(line):
            output = named["output"]
        if each := _MISMATCH.match(line):
            index = tuple(int(part) for part in each["index"].split(",") if part.strip())
            got = None if each["got"] is None else _number(each["got"])
            found.append(Mismatch(output, index, got, _number(each["expected"])))
    return tuple(found)


def _number(text: str) -> float | bool:
    return text == "True" if text in {"True", "False"} else float(text)


def _compiler(lines: Sequence[str]) -> tuple[CompilerMessage, ...]:
    found = [each for line in lines if (each := _COMPILER.match(line))][:_MOST_MESSAGES]
    return tuple(
        CompilerMessage(
            file=each["file"].removeprefix("./"),
            line=int(each["line"]),
            column=int(each["column"]) if each["column"] else None,
            level=each["level"] or "error",
            message=each["message"] or each["linker"],
        )
        for each in found
    )


def _unparsed(log: str) -> ReportedException | None:
    found = _UNPARSED.search(log)
    if found is None:
        return None
    return ReportedException(found["type"], found["message"], found["file"], int(found["line"]))


def _raised(lines: Sequence[str]) -> ReportedException | None:
    """Read the last traceback: its exception, and the user's frame above it, else a library's."""
    starts = [
        index for index, line in enumerate(lines) if line.startswith("Traceback (most recent call")
    ]
    if not starts:
        return None
    frame: re.Match[str] | None = None
    for line in lines[starts[-1] :]:
        frame = _inner(frame, _FRAME.match(line))
        if found := _EXCEPTION.match(line):
            return ReportedException(
                type=found["type"],
                message=found["message"] or "",
                file=frame["file"] if frame else None,
                line=int(frame["line"]) if frame else None,
            )
    return None


def _inner(frame: re.Match[str] | None, named: re.Match[str] | None) -> re.Match[str] | None:
    """Take the next frame of a stack, but no library's in place of a user's."""
    if named is None or frame is None:
        return named or frame
    return named if is_users_file(named["file"]) or not is_users_file(frame["file"]) else frame


def _hung_at(lines: Sequence[str]) -> CodePlace | None:
    """Find the innermost frame of the stack of a process that hung: the user's, else a library's."""
    if _HUNG not in lines:
        return None
    frame: re.Match[str] | None = None
    for line in lines[lines.index(_HUNG) + 1 :]:
        if not line.startswith("  "):
            break
        frame = _inner(frame, _FRAME.match(line))
    return (
        None if frame is None else CodePlace(frame["file"], int(frame["line"]), frame["function"])
    )
