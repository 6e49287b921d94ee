"""What `flashinfer-bench trace` wrote down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data.wording import sizes_text
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import Page, RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.text.tables import Block

_MIB = 2**20
_SHOWN_UNKNOWN = 12


@dataclass(frozen=True, slots=True)
class TracedUse:
    """Calls of one definition at one set of sizes."""

    definition: str
    axes: Mapping[str, int]
    count: int


@dataclass(frozen=True, slots=True)
class TracedRun:
    """What a program's calls left in a dataset."""

    command: str
    exit_code: int
    processes: int
    """Those that imported torch."""
    dataset: str
    profile: str | None
    """File of the counts; None where nothing was counted."""
    uses: Sequence[TracedUse]
    workloads: Mapping[str, int]
    """New ones by definition."""
    repeated: Mapping[str, int]
    """Those that the dataset held already."""
    lost: Mapping[str, int]
    blob_bytes: int
    unknown: Mapping[str, int]
    """Calls that fit no definition of the dataset, by name and reason."""
    failure: str | None
    """Why nothing was traced, where something kept it from being."""


def traced_page(run: TracedRun) -> Page:
    """Show what was written."""
    return tuple(_blocks(run))


def _blocks(run: TracedRun) -> Iterator[Block]:
    yield heading(f"traced: {run.command}")
    if run.uses:
        yield rows_table(_COLUMNS, run.uses)
    yield paragraph("", *_sentences(run)) if run.uses else paragraph(*_sentences(run))


_COLUMNS: tuple[RowColumn[TracedUse], ...] = (
    RowColumn("definition", lambda use: use.definition),
    RowColumn("sizes", lambda use: sizes_text(use.axes)),
    RowColumn("calls", lambda use: f"{use.count:,}", is_number=True),
)


def _sentences(run: TracedRun) -> Iterator[str]:
    if run.failure is not None:
        yield f"nothing was traced: {run.failure}"
        return
    if not run.processes:
        yield "nothing was traced: no Python process of it imported torch and ended in order"
        return
    if not run.uses and not run.unknown:
        yield f"nothing was traced: no call of it is one that definitions of {run.dataset} describe"
        return
    new, repeated, lost = (sum(each.values()) for each in (run.workloads, run.repeated, run.lost))
    blobs = f", {run.blob_bytes / _MIB:.1f} MiB of tensors" if run.blob_bytes else ""
    known = f"; {repeated} more were there already" if repeated else ""
    yield f"{count_text(new, 'workload')} written{blobs}{known}: {run.dataset}"
    if run.profile is not None:
        yield f"profile: {run.profile}"
    if lost:
        yield f"{count_text(lost, 'workload')} lost: the messages above say why"
    if run.unknown:
        names = sorted(run.unknown.items(), key=lambda each: -each[1])
        yield "called, and not recorded:"
        yield from (f"  {count:,} × {name}" for name, count in names[:_SHOWN_UNKNOWN])
        if len(names) > _SHOWN_UNKNOWN:
            yield f"  and {len(names) - _SHOWN_UNKNOWN} more"
