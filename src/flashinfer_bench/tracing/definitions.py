"""The definitions that calls are held against, also those that are added while a program runs."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from flashinfer_bench.data import Definition, load_json_file
from flashinfer_bench.data.layout import Layout, Links, files_under
from flashinfer_bench.errors import BenchError
from flashinfer_bench.intercept.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import TraceSet
    from flashinfer_bench.intercept import Call, Unplaced

_LOG = logging.getLogger("flashinfer_bench.tracing")
_LOOK_AGAIN_S, _LOOK_AGAIN_AT_MOST_S = 1.0, 60.0


class _Absence(NamedTuple):
    """How long a name that has no definition is not looked for again."""

    wait_s: float
    until_s: float


class KnownDefinitions:
    """Definitions of a trace set by name; for one it lacks, its folder is asked ever more rarely."""

    def __init__(self, trace_set: TraceSet) -> None:
        self._trace_set = trace_set
        self._catalogue = Catalogue(trace_set.definitions)
        self._absent: dict[str, _Absence] = {}

    @property
    def absent(self) -> list[str]:
        """Names that were asked for and are not there."""
        return sorted(self._absent)

    def find(self, call: Call) -> str | None:
        """Name the definition that a library's call is."""
        name = self._catalogue.find(call)
        if name is None and self._has_come(call.names):
            name = self._catalogue.find(call)
        return name

    def unplaced(self, readings: Sequence[Call] | Unplaced) -> Unplaced:
        """Say what a library's call that is of no definition would be called, and why it is none."""
        return self._catalogue.unplaced(readings)

    def _has_come(self, names: tuple[str, ...]) -> bool:
        """Ask for each: those that are not there are remembered as absent."""
        return any([self.get(name) is not None for name in names])  # noqa: C419 - each is asked for

    def get(self, name: str) -> Definition | None:
        """Find a definition; one that was added since the dataset was loaded is found too."""
        definition = self._trace_set.definitions.get(name)
        if definition is not None:
            self._absent.pop(name, None)
            return definition
        absence = self._absent.get(name, _Absence(_LOOK_AGAIN_S, 0.0))
        now = time.monotonic()
        if now < absence.until_s:
            return None
        definition = self._added_on_disk(name)
        if definition is None:
            wait_s = min(2 * absence.wait_s, _LOOK_AGAIN_AT_MOST_S)
            self._absent[name] = _Absence(wait_s, now + absence.wait_s)
        else:
            self._absent.pop(name, None)
        return definition

    def _added_on_disk(self, name: str) -> Definition | None:
        root = self._trace_set.root
        files = (
            () if root is None else files_under(Layout(root).definitions, f"{name}.json", Links())
        )
        for path in files:
            try:
                definition = load_json_file(Definition, path)
            except BenchError as error:
                _LOG.warning("%s", error)
                continue
            if definition.name == name:
                self._trace_set.definitions[name] = definition
                return definition
        return None
