"""Rows of SOL-ExecBench's table on the hub, one a problem, as the folders that its own script unpacks them to."""

from __future__ import annotations

import importlib
import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.layout import name as part_of_path
from flashinfer_bench.errors import MissingPackageError, UsageError
from flashinfer_bench.sol_execbench.entities import DEFINITION_FILE, REFERENCE_FILE, WORKLOAD_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
            except (KeyError, TypeError, ValueError) as error:
                raise UsageError(f"{path}: row {number} is no problem: {error!r}") from None
        yield Path(made)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".parquet":
        try:
            parquet: Any = importlib.import_module("pyarrow.parquet")
        except ImportError:
            raise MissingPackageError(
                "pyarrow", extra="parquet", needed_for="reading Parquet"
            ) from None
        yield from parquet.read_table(path).to_pylist()
        return
    text = path.read_text(encoding="utf-8")
    try:
        found = json.loads(text) if text.lstrip().startswith("[") else None
        yield from found or (json.loads(line) for line in text.splitlines() if line.strip())
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from None


def _unpack(row: Mapping[str, Any], group: Path) -> None:
    plain = {name: row.get(name) for name in _PLAIN}
    folder = group / part_of_path(str(row["name"]))
    folder.mkdir(parents=True)
    inner = {name: json.loads(row[name]) for name in _IN_TEXT}
    (folder / DEFINITION_FILE).write_text(json.dumps(plain | inner, indent=4), encoding="utf-8")
    (folder / REFERENCE_FILE).write_text(str(row["reference"]), encoding="utf-8", newline="")
    lines = [f"{json.dumps(each)}\n" for each in json.loads(row["workloads"])]
    (folder / WORKLOAD_FILE).write_text("".join(lines), encoding="utf-8")
