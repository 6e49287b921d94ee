"""Write a decomposition: everything into a folder beside the place, which then takes it over at once."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.data.appending import storage_error
from flashinfer_bench.decompose.axes import Probed, probe
from flashinfer_bench.decompose.capture import Captured
from flashinfer_bench.decompose.capture import probe as retraced
from flashinfer_bench.decompose.emit.dataset import dataset
from flashinfer_bench.decompose.emit.files import piece_file
from flashinfer_bench.decompose.emit.opaque import opaque_file
from flashinfer_bench.decompose.emit.original import copies, original_of
from flashinfer_bench.decompose.emit.readme import readme
from flashinfer_bench.decompose.emit.steps import steps
from flashinfer_bench.decompose.emit.tree_json import counts, tree_json
from flashinfer_bench.decompose.pieces import Pieces, find_pieces
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from flashinfer_bench.decompose.ir import Level, Node, OpTrace
    from flashinfer_bench.decompose.model_file import ModelSource

_KERNELS: tuple[Level, ...] = ("kernel",)
MARK = "decomposition_tree.json"
"""A folder that holds this file is a decomposition, and may be replaced by another."""


@dataclass(frozen=True)
class WrittenDataset:
    """What was written, and where."""

    directory: Path
    files: tuple[str, ...]
    """Paths below the directory, sorted."""
    counts: Mapping[str, Mapping[str, int]]
    """By level: how many different `nodes`, and how many `instances` of them."""
    definitions: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    """Pieces that have no definition in the dataset, and why."""


def write(
    source: ModelSource,
    captured: Captured,
    tree: Node,
    directory: Path,
    levels: Collection[Level] = _KERNELS,
) -> WrittenDataset:
    """Write all files of a decomposition, or none; `levels` are those that get definitions."""
    return write_pieces(
        source, find_pieces(probed(source, captured.trace), tree), directory, levels
    )


def write_pieces(
    source: ModelSource,
    pieces: Pieces,
    directory: Path,
    levels: Collection[Level] = _KERNELS,
) -> WrittenDataset:
    """Write all files of a decomposition whose pieces are known, or none."""
    made = dataset(source, pieces, levels)
    contents = dict(_contents(source, pieces))
    contents["README.md"] = readme(pieces, made.left_out).encode()
    contents |= {f"dataset/{path}": content for path, content in made.files.items()}
    _replace(directory, contents)
    return WrittenDataset(
        directory=directory,
        files=tuple(sorted(contents)),
        counts=counts(pieces),
        definitions=tuple(made.definitions),
        left_out=tuple(made.left_out),
    )


def probed(source: ModelSource, trace: OpTrace) -> Probed:
    """Find the variable axes of a model that was captured on meta; others keep their sizes."""
    if trace.front_end != "meta":
        return Probed(trace)
    return probe(trace, lambda shapes: _retraced(source, dict(enumerate(shapes))))


def _retraced(source: ModelSource, shapes: Mapping[int, tuple[int, ...]]) -> OpTrace | None:
    try:
        return retraced(source, shapes)
    except Exception:  # noqa: BLE001  # the model's own code, on sizes it was not made for
        return None


def _contents(source: ModelSource, pieces: Pieces) -> Iterator[tuple[str, bytes]]:
    """Yield every file by its path below the directory."""
    yield from copies(source)
    yield MARK, tree_json(pieces, original_of(source)).encode()
    if pieces.trace.front_end == "opaque":
        yield pieces.root.file, opaque_file(source, pieces).encode()
        return
    for piece in pieces.all:
        yield piece.file, piece_file(pieces, piece).encode()
    for path, text in steps(pieces):
        yield path, text.encode()


def _replace(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Put a folder with these files in the place of an earlier decomposition, or of nothing."""
    if directory.is_dir() and any(directory.iterdir()) and not (directory / MARK).is_file():
        raise UsageError(
            f"{directory} holds other files and no {MARK}: choose an empty folder, or a new one"
        )
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{directory.name}.", dir=directory.parent
        ) as aside:
            _write_all(Path(aside) / "new", contents)
            if directory.exists():
                directory.rename(Path(aside) / "old")
            (Path(aside) / "new").rename(directory)
    except OSError as error:
        raise storage_error(directory, error) from error


def _write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    for parent in sorted({(folder / path).parent for path in contents}):
        parent.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        (folder / path).write_bytes(content)
