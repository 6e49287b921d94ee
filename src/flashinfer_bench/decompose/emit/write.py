"""Write a decomposition: everything into a folder beside the place, which then takes it over at once."""

from __future__ import annotations

import ast
import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from flashinfer_bench.data.appending import storage_error
from flashinfer_bench.decompose.axes import Probed, probe
from flashinfer_bench.decompose.capture import Captured
from flashinfer_bench.decompose.capture import probe as retraced
from flashinfer_bench.decompose.emit.code import flat_class, refactored_class, summary
from flashinfer_bench.decompose.emit.dataset import dataset
from flashinfer_bench.decompose.emit.inputs import get_inputs
from flashinfer_bench.decompose.emit.opaque import opaque_file
from flashinfer_bench.decompose.emit.readme import readme
from flashinfer_bench.decompose.emit.testing import test_part
from flashinfer_bench.decompose.emit.tree_json import counts, tree_json
from flashinfer_bench.decompose.model_file import ModelFile, ModelSource
from flashinfer_bench.decompose.own_values import OwnValues
from flashinfer_bench.decompose.pieces import Pieces, find_pieces
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from flashinfer_bench.decompose.ir import Level, Node, OpTrace
    from flashinfer_bench.decompose.pieces import Piece


_KERNELS: tuple[Level, ...] = ("kernel",)
_MOST_RERUN_BYTES = 2 << 30
"""Of the weights of a model that only runs with values: a larger one is not run again at other sizes."""
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
    pieces = replace(pieces, own=OwnValues(source, pieces.trace))
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
    """Find the variable axes of a model that was captured in a run; a large one that needs values keeps its sizes."""
    device = {"meta": "meta", "real": "cpu"}.get(trace.front_end)
    if device is None or (device == "cpu" and _weight_bytes(trace) > _MOST_RERUN_BYTES):
        return Probed(trace)
    is_step = isinstance(source, ModelFile) and source.run_as.phase == "decode"
    return probe(
        trace, lambda shapes: _retraced(source, dict(enumerate(shapes)), device), is_step=is_step
    )


def _weight_bytes(trace: OpTrace) -> int:
    held = (each for each in trace.values.values() if each.kind in ("param", "buffer"))
    return sum(math.prod(each.shape) * getattr(torch, each.dtype).itemsize for each in held)


def _retraced(
    source: ModelSource, shapes: Mapping[int, tuple[int, ...]], device: str
) -> OpTrace | None:
    try:
        return retraced(source, shapes, device=device)
    except Exception:  # noqa: BLE001  # the model's own code, on sizes it was not made for
        return None


def _contents(source: ModelSource, pieces: Pieces) -> Iterator[tuple[str, bytes]]:
    """Yield every file by its path below the directory."""
    yield from _copies(source)
    run_as = source.run_as.said() if isinstance(source, ModelFile) else {}
    yield MARK, tree_json(pieces, _original_of(source), run_as).encode()
    if pieces.trace.front_end == "opaque":
        yield pieces.root.file, opaque_file(source, pieces).encode()
        return
    for piece in pieces.all:
        yield piece.file, _piece_file(pieces, piece).encode()
    for path, text in _steps(pieces):
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


def _original_of(source: ModelSource) -> bytes | None:
    """Give the bytes of the model's file; none where the model was no file."""
    return source.path.read_bytes() if isinstance(source, ModelFile) else None


def _copies(source: ModelSource) -> Iterator[tuple[str, bytes]]:
    """Yield the file as `original.py`, and the helpers under their own names."""
    if not isinstance(source, ModelFile):
        return
    yield "original.py", source.path.read_bytes()
    for helper in sorted(_helpers(source.path)):
        yield helper.relative_to(source.path.parent).as_posix(), helper.read_bytes()


def _helpers(file: Path) -> set[Path]:
    """Find the modules beside a file that it imports, and that those import."""
    found: set[Path] = set()
    waiting = [file]
    while waiting:
        for name in _imported(waiting.pop()):
            path = file.parent / f"{name}.py"
            if path.is_file() and path != file and path not in found:
                found.add(path)
                waiting.append(path)
    return found


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.replace(".", "/") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.replace(".", "/")


def _piece_file(pieces: Pieces, piece: Piece) -> str:
    """Write the file of a piece: a leaf's operations, or a parent's calls with all classes below it."""
    classes = [refactored_class(pieces, each, each.class_name) for each in piece.below()]
    return _file(pieces, piece, [*classes, refactored_class(pieces, piece, "Model")])


def original_file(pieces: Pieces, piece: Piece) -> str:
    """Write a parent before it was split: one straight sequence of operations."""
    return _file(pieces, piece, [flat_class(piece, "Model")])


def refactored_file(pieces: Pieces, piece: Piece) -> str:
    """Write a parent after it was split: calls of its children, which run their operations themselves."""
    children = {each.identity: each for each in piece.children}
    classes = [flat_class(each, each.class_name) for each in children.values()]
    return _file(pieces, piece, [*classes, refactored_class(pieces, piece, "Model")])


def _file(pieces: Pieces, piece: Piece, classes: Iterable[list[str]]) -> str:
    sections = [*classes, get_inputs(pieces, piece), test_part(pieces, piece)]
    text = "\n\n\n".join("\n".join(lines) for lines in sections)
    imports = [*(["import base64", "import zlib", ""] if "zlib." in text else []), "import torch"]
    if "F." in text:
        imports.append("import torch.nn.functional as F")
    imports.append("from torch import nn")
    times = len(piece.instances)
    count = "once" if times == 1 else f"{times} times"
    head = [f'"""{summary(piece)}', "", f"Occurs {count} in {pieces.trace.model}.", '"""', ""]
    return "\n".join([*head, *imports, "", "", text, ""])


def _steps(pieces: Pieces) -> Iterator[tuple[str, str]]:
    """Yield paths and contents, the model's split first."""
    parents = [piece for piece in pieces.all if piece.children]
    for number, piece in enumerate(parents, start=1):
        folder = f"steps/step_{number}_{piece.id}"
        yield f"{folder}/original.py", original_file(pieces, piece)
        yield f"{folder}/refactored.py", refactored_file(pieces, piece)
