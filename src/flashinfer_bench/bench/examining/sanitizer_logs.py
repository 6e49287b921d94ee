"""What sanitizers print, read into findings: compute-sanitizer, AddressSanitizer and UBSan, valgrind.

Sources of the formats: the manuals of Compute Sanitizer ("Understanding Memcheck Errors", "Racecheck Error Format"), of
GCC's sanitizers, and `xml-output-protocol4.txt` of valgrind.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.bench.examining.sanitizer_values import SanitizerFinding
from flashinfer_bench.bench.examining.tool_answers import short_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from flashinfer_bench.bench.examining.sanitizer_values import SanitizerTool

DRIVER_FILE = "one_call.cpp"
"""What makes the call: a fault seen there is one of the outputs it looks at."""
_MARK = "========="
_NOTHING_BY_ITSELF = re.compile(
    r"COMPUTE-SANITIZER|(?:ERROR|RACECHECK) SUMMARY|Target application|LEAK SUMMARY|No kernel|Error: No attachable"
)
_AT = re.compile(r"^\s*(?:at|in) (.+?)(?:\+0x[0-9a-f]+)?(?: in (\S+?):(\d+))?$")
_RACE = re.compile(
    r"(?:Read|Write|Atomic) access at (.+?)(?:\+0x[0-9a-f]+)?(?: in (\S+?):(\d+))?(?:(?<!:)[:\s](?!:)|$)"
)
_RACE_OLD = re.compile(r"access at 0x[0-9a-f]+ in (\S+?):(\d+):(.+?\))")
_HAZARDS = re.compile(r"\[(\d+) hazards?\]")
_ASAN = re.compile(r"ERROR: AddressSanitizer: ([\w-]+)")
_ASAN_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)
_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ in (.+?) (\S+?):(\d+)(?::\d+)?$", re.MULTILINE)
_UBSAN = re.compile(r"^(\S+?):(\d+):\d+: runtime error: (.+)$", re.MULTILINE)
_MOST_DETAIL_LINES = 6
_UNWRITTEN = "Syscall param write(buf) points to uninitialised byte(s)"


def compute_sanitizer_findings(tool: SanitizerTool, log: str) -> tuple[SanitizerFinding, ...]:
    """Read a log of compute-sanitizer: a paragraph for each fault, the kernel and its line in the second."""
    return _counted(
        each for each in (_of_paragraph(tool, lines) for lines in _paragraphs(log)) if each
    )


def _paragraphs(log: str) -> Iterator[list[str]]:
    """Split at empty lines; a line that is not indented begins a fault of its own."""
    lines: list[str] = []
    for line in log.splitlines():
        if not line.startswith(_MARK):
            continue
        text = line.removeprefix(_MARK).rstrip()
        starts_anew = bool(text.strip()) and not text.startswith("  ")
        if (starts_anew or not text.strip()) and lines:
            yield lines
            lines = []
        if text.strip():
            lines.append(text)
    if lines:
        yield lines


def _of_paragraph(tool: SanitizerTool, lines: Sequence[str]) -> SanitizerFinding | None:
    head = lines[0].strip()
    if _NOTHING_BY_ITSELF.search(head) or lines[0].startswith("  "):
        return None
    kernel, file, line = _race_place(head) or next(
        filter(None, map(_place, lines[1:])), (None, None, None)
    )
    hazards = [int(each) for text in lines for each in _HAZARDS.findall(text)]
    kind = re.split(r" between | at 0x", head.removeprefix("ERROR: ").removeprefix("Error: "))[
        0
    ].strip()
    return SanitizerFinding(
        tool=tool,
        kind=kind,
        kernel=None if kernel is None else short_name(kernel),
        file=file,
        line=line,
        count=max(1, sum(hazards)),
        detail="\n".join(text.strip() for text in lines[:_MOST_DETAIL_LINES]),
    )


def _race_place(head: str) -> tuple[str, str | None, int | None] | None:
    if old := _RACE_OLD.search(head):
        file, line, kernel = old.groups()
        return kernel, PurePath(file).name, int(line)
    found = _RACE.search(head)
    return None if found is None else _named(*found.groups())


def _place(text: str) -> tuple[str, str | None, int | None] | None:
    found = _AT.match(text)
    if found is None or found.group(1).startswith("0x"):
        return None
    return _named(*found.groups())


def _named(kernel: str, file: str | None, line: str | None) -> tuple[str, str | None, int | None]:
    return (
        kernel,
        None if file is None else PurePath(file).name,
        None if line is None else int(line),
    )


def gcc_findings(log: str, sources: Collection[str]) -> tuple[SanitizerFinding, ...]:
    """Read logs of AddressSanitizer and UBSan; places are those in the solution's own files."""
    found = []
    for report in re.split(r"^=+$", log, flags=re.MULTILINE):
        kind = _ASAN.search(report)
        if kind is None:
            continue
        access = _ASAN_ACCESS.search(report)
        frames = _FRAME.findall(report)
        function, file, line = _own_frame(frames, sources)
        size = f" ({access.group(1)} of {access.group(2)} bytes)" if access else ""
        found.append(
            SanitizerFinding(
                tool="address",
                kind=f"{kind.group(1)}{size}",
                kernel=function,
                file=file,
                line=line,
                detail=_first_lines(report),
            )
        )
    for file, line, text in _UBSAN.findall(log):
        name = _own_name(file, sources) or PurePath(file).name
        found.append(SanitizerFinding(tool="undefined", kind=text, file=name, line=int(line)))
    return _counted(found)


def _own_frame(
    frames: Sequence[tuple[str, str, str]], sources: Collection[str]
) -> tuple[str | None, str | None, int | None]:
    """Pick the innermost frame that lies in the solution's own files."""
    for function, file, line in frames:
        name = _own_name(file, sources)
        if name is not None:
            return short_name(function), name, int(line)
    return None, None, None


def _own_name(file: str, sources: Collection[str]) -> str | None:
    return next((each for each in sources if file == each or file.endswith(f"/{each}")), None)


def valgrind_findings(text: str, sources: Collection[str]) -> tuple[SanitizerFinding, ...]:
    """Read valgrind's XML: uses of memory that was never written, and outputs that hold such bytes."""
    try:
        root = ET.fromstring(_whole(text))  # noqa: S314  # expat bounds what entities may grow to
    except ET.ParseError:
        return ()
    counts = {
        pair.findtext("unique"): int(pair.findtext("count") or 1)
        for pair in root.iterfind("errorcounts/pair")
    }
    errors = (_valgrind_error(error, sources, counts) for error in root.iterfind("error"))
    return _counted(each for each in errors if each is not None)


def _whole(text: str) -> str:
    """Close what a run that was ended has left open."""
    end = "</valgrindoutput>"
    return text if end in text else f"{text[: text.rfind('</error>') + len('</error>')]}{end}"


def _valgrind_error(
    error: ET.Element, sources: Collection[str], counts: dict[str | None, int]
) -> SanitizerFinding | None:
    what = error.findtext("what") or error.findtext("xwhat/text") or ""
    frames = [
        (frame.findtext("fn") or "?", frame.findtext("file") or "", frame.findtext("line") or "0")
        for frame in error.iterfind("stack[1]/frame")
    ]
    function, file, line = _own_frame(frames, sources)
    is_output = what == _UNWRITTEN and any(name == DRIVER_FILE for _, name, _ in frames)
    if file is None and not is_output:
        return None  # of a library's own doing
    origins = [each.text or "" for each in error.iterfind("auxwhat")]
    return SanitizerFinding(
        tool="uninitialised",
        kind="an output holds bytes that were never initialised" if is_output else what,
        kernel=function,
        file=file,
        line=line,
        count=counts.get(error.findtext("unique"), 1),
        detail="\n".join(origins[:_MOST_DETAIL_LINES]),
    )


def _counted(findings: Iterable[SanitizerFinding]) -> tuple[SanitizerFinding, ...]:
    """Make one of what was met at one place again and again; the most frequent come first."""
    counts: Counter[tuple[object, ...]] = Counter()
    first: dict[tuple[object, ...], SanitizerFinding] = {}
    for each in findings:
        key = (each.tool, each.kind, each.kernel, each.file, each.line)
        counts[key] += each.count
        first.setdefault(key, each)
    return tuple(
        msgspec.structs.replace(first[key], count=count) for key, count in counts.most_common()
    )


def _first_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:_MOST_DETAIL_LINES])
