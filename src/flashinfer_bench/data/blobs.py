"""What lies beside lines of JSON: tensors of workloads in safetensors files, raw timing samples beside the traces."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import msgspec

from flashinfer_bench.data.files import whole_lines, write_whole
from flashinfer_bench.data.opening import LINES_BYTES, is_lfs_pointer, read_bytes
from flashinfer_bench.errors import DatasetError, MissingPackageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    import torch

    from flashinfer_bench.data.trace import Trace


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors to a new file, whole or not at all; any device, any strides."""
    save = _safetensors_torch().save
    if path.exists():
        raise UsageError(f"{path} exists already")
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, save(on_cpu))


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read a file's tensors onto the CPU."""
    load_file = _safetensors_torch().load_file
    if is_lfs_pointer(path):
        raise DatasetError("not downloaded yet: `git lfs pull` fetches it", path=path)
    try:
        tensors: dict[str, torch.Tensor] = load_file(path, device="cpu")
    except Exception as error:
        raise DatasetError(f"not a safetensors file: {error}", path=path) from error
    return tensors


def _safetensors_torch() -> ModuleType:
    try:
        return importlib.import_module("safetensors.torch")
    except ImportError:
        raise MissingPackageError(
            "torch", extra="torch", needed_for="reading and writing workload tensors"
        ) from None


def samples_line(trace: Trace, samples: Mapping[str, Sequence[float]]) -> bytes:
    """Render a trace's samples: its id, and milliseconds by participant."""
    trace_id = _trace_id(trace)
    if trace_id is None:
        raise UsageError("samples need a trace with provenance: its trace_id ties them together")
    columns = {f"{participant}_ms": list(times_ms) for participant, times_ms in samples.items()}
    return msgspec.json.encode({"trace_id": trace_id, **columns}) + b"\n"


def find_samples(trace: Trace, files: Iterable[Path]) -> dict[str, list[float]] | None:
    """Look a trace's samples up; milliseconds by participant."""
    trace_id = _trace_id(trace)
    if trace_id is None:
        return None
    return next((found for file in files if (found := _find_in(file, trace_id))), None)


def find_all_samples(
    trace_ids: Iterable[str], files: Iterable[Path]
) -> dict[str, dict[str, list[float]]]:
    """Look the samples of several traces up, each file read once; by trace id, then by participant."""
    wanted = set(trace_ids)
    found: dict[str, dict[str, list[float]]] = {}
    for file in files:
        for number, text in whole_lines(read_bytes(file, LINES_BYTES), file):
            columns = _columns(text, file, number)
            trace_id = columns.pop("trace_id", None)
            if isinstance(trace_id, str) and trace_id in wanted:
                found.setdefault(trace_id, _by_participant(columns))
    return found


def _find_in(file: Path, trace_id: str) -> dict[str, list[float]] | None:
    key = trace_id.encode()
    for number, text in whole_lines(read_bytes(file, LINES_BYTES), file):
        if key not in text:
            continue
        columns = _columns(text, file, number)
        if columns.pop("trace_id", None) == trace_id:
            return _by_participant(columns)
    return None


def _by_participant(columns: Mapping[str, str | list[float]]) -> dict[str, list[float]]:
    return {
        name.removesuffix("_ms"): times_ms
        for name, times_ms in columns.items()
        if isinstance(times_ms, list)
    }


def _columns(text: bytes, file: Path, number: int) -> dict[str, str | list[float]]:
    try:
        return msgspec.json.decode(text, type=dict[str, str | list[float]])
    except msgspec.DecodeError as error:
        raise DatasetError(f"not samples: {error}", path=file, line=number) from None


def _trace_id(trace: Trace) -> str | None:
    provenance = trace.evaluation.provenance if trace.evaluation else None
    return None if provenance is None else provenance.trace_id
