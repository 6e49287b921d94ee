"""Lines of trace files, kept as bytes until somebody asks what they say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.data.files import numbered_lines, without_torn_tail
from flashinfer_bench.data.opening import LINES_BYTES, read_bytes
from flashinfer_bench.data.parsing import TextPlace, UnknownKeys, parse
from flashinfer_bench.data.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HEAD = re.compile(rb'\{"definition":"([ !#-\[\]-~]*)",')  # plain ASCII, nothing escaped
_SOLUTION = b'"solution":"'


class _Head(msgspec.Struct):
    """As much of a line as tells where it belongs."""

    definition: str
    solution: str | None = None
    evaluation: msgspec.Raw | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Lines of one file that belong to one definition; `only` lists them unless all do."""

    path: str
    content: bytes
    only: tuple[tuple[int, bytes], ...] | None = None

    def lines(self) -> Iterable[tuple[int, bytes]]:
        """Give numbered lines."""
        return numbered_lines(self.content) if self.only is None else self.only

    def traces(self, unknown: UnknownKeys) -> Iterator[Trace]:
        """Parse the lines."""
        for number, line in self.lines():
            yield self.trace(number, line, unknown)

    def trace(self, number: int, line: bytes, unknown: UnknownKeys) -> Trace:
        """Parse one line."""
        return parse(Trace, line, TextPlace(self.path, number), unknown=unknown)


@dataclass(frozen=True, slots=True)
class Sorted:
    """The lines of one file, by what they are and by definition."""

    traces: dict[str, Segment]
    workloads: dict[str, Segment]


def read_segments(path: str) -> Sorted:
    """Read a file of lines and sort them; a torn last line is passed over with a warning."""
    content = without_torn_tail(read_bytes(path, LINES_BYTES), path)
    definition = _only_definition(content)
    if definition is not None:
        return Sorted({definition: Segment(path, content)}, {})
    return _sorted_by_line(path, content)


def _only_definition(content: bytes) -> str | None:
    """Name the definition if every line is a full trace of it in compact JSON: a fast scan."""
    head = _HEAD.match(content)
    if head is None:
        return None
    line_count = content.count(b"\n") + (not content.endswith(b"\n"))
    is_uniform = (
        content.count(b"\n" + head.group()) + 1 == line_count
        and content.count(_SOLUTION) == line_count
    )
    return head.group(1).decode() if is_uniform else None


def _sorted_by_line(path: str, content: bytes) -> Sorted:
    decoder = msgspec.json.Decoder(_Head)
    traces: dict[str, list[tuple[int, bytes]]] = {}
    workloads: dict[str, list[tuple[int, bytes]]] = {}
    for number, line in numbered_lines(content):
        try:
            head = decoder.decode(line)
            is_workload = head.solution is None and head.evaluation in (None, b"null")
            definition = head.definition
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            trace = parse(Trace, line, TextPlace(path, number), unknown=UnknownKeys())
            definition, is_workload = trace.definition, trace.is_workload_trace()
        kind = workloads if is_workload else traces
        kind.setdefault(definition, []).append((number, line))
    return Sorted(_segments(path, traces), _segments(path, workloads))


def _segments(path: str, lines: dict[str, list[tuple[int, bytes]]]) -> dict[str, Segment]:
    return {name: Segment(path, b"", tuple(numbered)) for name, numbered in lines.items()}
