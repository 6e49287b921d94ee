"""What a search leaves on disk: accepted kernels as solutions, their traces, and a transcript."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import unpack
from flashinfer_bench.data.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.agents.generation.rounds import GeneratedCandidate
    from flashinfer_bench.data import Definition, Trace, TraceSet


class Transcript:
    """Lines of JSON, each on disk as soon as it is known."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def note(self, kind: str, said: dict[str, Any]) -> None:
        """Add a line."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        line = {"event": kind, "time_s": round(time.time(), 3), **said}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")


def transcript_file(root: Path, definition: str) -> Path:
    """Name the transcript of a search that begins now."""
    began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return root / "transcripts" / f"{definition}-{began}.ndjson"


def keep(trace_set: TraceSet, definition: Definition, candidate: GeneratedCandidate) -> str:
    """Write an accepted kernel as a solution, and its traces with how it came about; give its folder."""
    solution = candidate.solution
    assert solution is not None
    root = trace_set.output or trace_set.roots[0]
    folder = Layout(root).solution_file(solution, definition.op_type).with_suffix("")
    if not folder.exists():
        unpack(solution, folder)
    for trace in (*candidate.visible, *candidate.held_out):
        trace_set.append(_with_info(trace, candidate), author=solution.author)
    return str(folder)


def _with_info(trace: Trace, candidate: GeneratedCandidate) -> Trace:
    evaluation = trace.evaluation
    assert evaluation is not None
    assert evaluation.provenance is not None
    provenance = evaluation.provenance.model_copy(update={"generated": candidate.info})
    return trace.model_copy(
        update={"evaluation": evaluation.model_copy(update={"provenance": provenance})}
    )
