"""Rows of SOL-ExecBench's table on the hub, one a problem, as the folders that its own script unpacks them to."""

from __future__ import annotations

import importlib
import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.files import numbered_lines
from flashinfer_bench.data.layout import name as part_of_path
from flashinfer_bench.errors import BenchError, MissingPackageError, UsageError
from flashinfer_bench.sol_execbench.entities import DEFINITION_FILE, REFERENCE_FILE, WORKLOAD_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

_IN_TEXT = ("axes", "inputs", "outputs")
"""Columns with JSON inside the text."""
_PLAIN = ("name", "description", "hf_id", "custom_inputs_entrypoint", "reference")


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Give a folder of problems: the one that is named, or one that is made of a file of rows for a while."""
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="sol-execbench-") as made:
        group = Path(made) / part_of_path(path.stem)
        for number, row in enumerate(_rows(path), 1):
            try:
                _unpack(row, group)
            except BenchError as error:
                raise UsageError(f"{path}: row {number}: {error}") from None
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                raise UsageError(f"{path}: row {number} is no problem: {error!r}") from None
        yield Path(made)


def _rows(path: Path) -> list[object]:
    kind, read = ("Parquet", _in_parquet) if path.suffix == ".parquet" else ("JSON", _in_json)
    try:
        return read(path)
    except (ValueError, RecursionError) as error:  # pyarrow's are ValueErrors, too
        raise UsageError(f"{path}: not {kind}: {error}") from None


def _in_json(path: Path) -> list[object]:
    content = path.read_bytes()
    if content.lstrip().startswith(b"["):
        return list(json.loads(content))
    return [json.loads(line) for _, line in numbered_lines(content)]


def _in_parquet(path: Path) -> list[object]:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingPackageError(
            "pyarrow", extra="parquet", needed_for="reading Parquet"
        ) from None
    return list(parquet.read_table(path).to_pylist())


def _unpack(row: object, group: Path) -> None:
    if not isinstance(row, dict):
        raise UsageError(f"should be an object, not {row!r:.40}")
    plain = {name: row.get(name) for name in _PLAIN}
    folder = group / part_of_path(str(row["name"]))
    if folder.exists():
        raise UsageError(f"another row is called {row['name']!r}, too")
    folder.mkdir(parents=True)
    inner = {name: json.loads(row[name]) for name in _IN_TEXT}
    (folder / DEFINITION_FILE).write_text(json.dumps(plain | inner, indent=4), encoding="utf-8")
    (folder / REFERENCE_FILE).write_text(str(row["reference"]), encoding="utf-8", newline="")
    lines = [f"{json.dumps(each)}\n" for each in json.loads(row["workloads"])]
    (folder / WORKLOAD_FILE).write_text("".join(lines), encoding="utf-8")
