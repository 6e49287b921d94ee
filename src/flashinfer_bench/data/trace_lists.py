"""Lists of traces by definition, parsed when first looked at."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.parsing import UnknownKeys
from flashinfer_bench.data.rows import (
    Contender,
    TraceRow,
    contenders_of_segment,
    row_of_trace,
    rows_of_segment,
)
from flashinfer_bench.data.trace import Trace
from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Container, ItemsView, Iterable, Iterator, Sequence, ValuesView

    from flashinfer_bench.data.rows import Describe, Segment
    from flashinfer_bench.data.workload import Workload

_NONE: Sequence[Segment] = ()
_MOST_BYTES_AT_HAND = 4 << 20


class TraceLists(dict[str, list[Trace]]):
    """A dict of lists; what came from files is parsed when its list is first asked for.

    Whatever looks at one list parses that one; whatever looks at all of them parses all.
    """

    def __init__(
        self,
        lists: dict[str, list[Trace]] | None = None,
        *,
        segments: dict[str, list[Segment]] | None = None,
        unknown: UnknownKeys | None = None,
        of_workloads: bool = False,
    ) -> None:
        self._segments = segments or {}
        self._unknown = unknown or UnknownKeys()
        self._of_workloads = of_workloads
        self._recent: tuple[Sequence[Segment], Sequence[Contender | Trace]] = (_NONE, ())
        super().__init__({name: [] for name in self._segments})
        super().update(lists or {})

    def append(self, trace: Trace) -> None:
        """Add a trace to its definition's list, without parsing what is not parsed yet."""
        super().setdefault(trace.definition, []).append(trace)

    def rows(self, name: str, describe: Describe) -> Iterator[tuple[int, TraceRow]]:
        """Give the index in the list and the row of every trace that was evaluated."""
        index = 0
        for segment in self._segments.get(name, ()):
            for row in rows_of_segment(segment, describe):
                if row is not None:
                    yield index, row
                index += 1
        for trace in super().get(name, ()):
            row = row_of_trace(trace, describe)
            if row is not None:
                yield index, row
            index += 1

    def workloads_of(self, name: str, wanted: Container[int]) -> Iterator[tuple[int, Workload]]:
        """Give the workloads of some traces of a list, by index, without parsing the rest of these traces."""
        index = 0
        known: dict[bytes, Workload] = {}
        for segment in self._segments.get(name, ()):
            for number, line in segment.lines():
                if index in wanted:
                    yield index, segment.workload(number, line, self._unknown, known)
                index += 1
        for trace in super().get(name, ()):
            if index in wanted:
                yield index, trace.workload
            index += 1
        self._unknown.warn()

    def contenders(self, name: str) -> Iterator[Contender | Trace]:
        """Give every trace of a list, or as much of it as says whether it is the best."""
        yield from self._written_contenders(name)
        yield from super().get(name, ())

    def _written_contenders(self, name: str) -> Iterable[Contender | Trace]:
        """Give those of files; those of the list that was asked for last are at hand, unless they are many."""
        segments = self._segments.get(name, _NONE)
        if self._recent[0] is not segments:
            found = itertools.chain.from_iterable(map(contenders_of_segment, segments))
            if sum(segment.nbytes for segment in segments) > _MOST_BYTES_AT_HAND:
                return found
            self._recent = segments, list(found)
        return self._recent[1]

    def may_hold(self, name: str, text: str) -> bool:
        """Tell whether a list's traces can have a text as a value, without parsing them: False is certain."""
        written = {json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode()}
        segments = self._segments.get(name, ())
        return bool(super().get(name)) or any(
            each in line
            for segment in segments
            for line in (segment.content, *(line for _, line in segment.only or ()))
            for each in written
        )

    def written(self, name: str) -> Iterator[bytes]:
        """Give a list as it is written, in pieces: the same bytes mean the same traces."""
        for segment in self._segments.get(name, ()):
            yield segment.content
            yield from (line for _, line in segment.only or ())
        for trace in super().get(name, ()):
            yield trace.to_json().encode()

    def trace_at(self, name: str, index: int) -> Trace:
        """Give one trace of a list, parsing only that one where the list is not parsed yet."""
        for segment in self._segments.get(name, ()):
            lines = list(segment.lines())
            if index < len(lines):
                trace = segment.trace(*lines[index], self._unknown)
                self._unknown.warn()
                return trace
            index -= len(lines)
        return super().__getitem__(name)[index]

    def __getitem__(self, name: str) -> list[Trace]:
        self._parse(name)
        return super().__getitem__(name)

    def __setitem__(self, name: str, traces: list[Trace]) -> None:
        self._segments.pop(name, None)
        super().__setitem__(name, traces)

    def __delitem__(self, name: str) -> None:
        self._segments.pop(name, None)
        super().__delitem__(name)

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()  # overridden so that `dict(lists)` asks for each list

    def get(self, name: str, default: Any = None) -> Any:
        """Look one list up, parsed."""
        self._parse(name)
        return super().get(name, default)

    def values(self) -> ValuesView[list[Trace]]:  # type: ignore[override]
        """Give the lists, all parsed."""
        self._parse_all()
        return super().values()

    def items(self) -> ItemsView[str, list[Trace]]:  # type: ignore[override]
        """Give names and lists, all parsed."""
        self._parse_all()
        return super().items()

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Look one list up, parsed, or put one there."""
        self._parse(name)
        return super().setdefault(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """Take one list out, parsed."""
        self._parse(name)
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, list[Trace]]:
        """Take the last list out, parsed."""
        self._parse_all()
        return super().popitem()

    def update(self, *others: Any, **named: list[Trace]) -> None:
        """Put lists in; they replace what was there."""
        self._parse_all()
        super().update(*others, **named)

    def clear(self) -> None:
        """Take everything out."""
        self._segments.clear()
        super().clear()

    def copy(self) -> dict[str, list[Trace]]:
        """Copy as a plain dict of the same lists."""
        self._parse_all()
        return super().copy()

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        self._parse_all()
        if isinstance(other, TraceLists):
            other._parse_all()
        return super().__eq__(other)

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return TraceLists, (self.copy(),)

    def _parse_all(self) -> None:
        self._parse(*self._segments)

    def _parse(self, *names: str) -> None:
        waiting = [name for name in names if name in self._segments]
        if not waiting:
            return
        with _collector_paused():
            for name in waiting:
                super().__getitem__(name)[:0] = list(self._parsed(name))
                del self._segments[name]
        self._unknown.warn()

    def _parsed(self, name: str) -> Iterator[Trace]:
        for segment in self._segments[name]:
            for number, line in segment.lines():
                trace = segment.trace(number, line, self._unknown)
                if trace.is_workload_trace() is not self._of_workloads:
                    kind = "a full trace" if self._of_workloads else "a workload-only trace"
                    raise DatasetError(
                        f"{kind} does not belong here", path=segment.path, line=number
                    )
                yield trace


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Build many objects without the cyclic collector walking over them again and again.

    Freezing and unfreezing moves them to the oldest generation, so that none walks over them right
    after either.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()
