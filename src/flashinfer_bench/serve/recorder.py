"""Results of the store go to an ordinary dataset, each once, so that every report works on it at once."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING

from flashinfer_bench.data import Solution, Trace, TraceSet, save_json_file
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.errors import BenchError

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.serve.database import Row
    from flashinfer_bench.serve.queue import Queue

_log = logging.getLogger(__name__)


class DatasetRecorder:
    """Appends what is not recorded yet; after a crash it looks first at what is there."""

    def __init__(self, queue: Queue, trace_set: TraceSet) -> None:
        self._queue = queue
        self._given = trace_set
        self._target = trace_set.output or trace_set.root
        self._lock = threading.Lock()
        self._written: set[str] = set()
        """Solutions that are in the dataset."""

    def catch_up(
        self, needed: tuple[str, str] | None = None, *, after_a_crash: bool = False
    ) -> None:
        """Record what is not recorded: every line is on disk when this returns.

        One that fails is tried again with the next and holds up no other; it is an error where it is `needed`, a
        task and a workload.
        """
        fault: Exception | None = None
        with self._lock:
            for row in self._queue.unrecorded():
                try:
                    self._record(row, may_be_there=after_a_crash)
                except (OSError, BenchError) as error:
                    if needed == (row["task"], row["workload"]):
                        fault = error
                    else:
                        _log.error(
                            "a result of %s is not in the dataset yet: %s", row["author"], error
                        )
                    continue
                self._queue.note_recorded(row["batch"], row["workload"])
        if fault is not None:
            raise fault

    def _record(self, row: Row, *, may_be_there: bool) -> None:
        trace = Trace.model_validate_json(row["trace"])
        if self._target is None:
            self._given.traces.append(trace)
            return
        solution = Solution.model_validate_json(row["document"])
        solution = solution.model_copy(update={"author": row["author"]})
        if may_be_there and self._holds(trace, row["author"]):
            return
        self._write_solution(solution)
        samples = None if row["samples"] is None else json.loads(row["samples"])
        # A view of its own, so that the server does not grow with what it has recorded.
        view = TraceSet(self._target, self._given.definitions)
        signature = None if row["signature"] is None else f"{row['signature']}\n".encode()
        view.append(trace, samples=samples, author=row["author"], signature=signature)

    def _write_solution(self, solution: Solution) -> None:
        """Put a solution beside its traces, unless the dataset has it."""
        if solution.name in self._written or self._given.get_solution(solution.name) is not None:
            return
        assert self._target is not None
        op_type = self._given.definitions[solution.definition].op_type
        file = Layout(self._target).solution_file(solution, op_type)
        if not file.exists():
            save_json_file(solution, file)
        self._written.add(solution.name)

    def _holds(self, trace: Trace, author: str) -> bool:
        assert self._target is not None
        provenance = trace.evaluation.provenance if trace.evaluation else None
        file = Layout(self._target).trace_file(author, self._given.definitions[trace.definition])
        if provenance is None or not file.exists():
            return False
        return _has_line_with(file, provenance.trace_id)


def _has_line_with(file: Path, text: str) -> bool:
    with file.open("rb") as lines:
        return any(line.endswith(b"\n") and text.encode() in line for line in lines)
