"""Profiles on disk: a line for each beside the traces, read again for reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.bench.examining.profile_values import SolutionProfile
from flashinfer_bench.data.appending import append
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.data.opening import read_bytes
from flashinfer_bench.errors import DatasetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from flashinfer_bench.data import Definition


def keep_profile(file: Path, profile: SolutionProfile) -> None:
    """Add a profile to a file of them; it is on disk when this returns."""
    file.parent.mkdir(parents=True, exist_ok=True)
    append({str(file): msgspec.json.encode(profile) + b"\n"})


def newest_profiles(
    roots: Iterable[Path], definition: Definition
) -> dict[tuple[str, str, str], SolutionProfile]:
    """Read the newest profile of each solution's content, workload and hardware.

    A line that is no profile, of a later version perhaps, is passed over.
    """
    found: dict[tuple[str, str, str], SolutionProfile] = {}
    for root in roots:
        for file in _files(root, definition):
            for each in _read(file):
                key = (each.solution_hash, each.workload, each.hardware)
                if key not in found or found[key].taken_at <= each.taken_at:
                    found[key] = each
    return found


def _files(root: Path, definition: Definition) -> list[Path]:
    try:
        return Layout(root).kernel_profiles_files(definition)
    except UsageError:  # its name cannot be a file's, so nothing was ever kept
        return []


def _read(file: Path) -> Iterator[SolutionProfile]:
    try:
        lines = read_bytes(file).splitlines()
    except (OSError, DatasetError):
        return
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=SolutionProfile)
        except (msgspec.DecodeError, RecursionError):
            continue
