"""What a safetensors file holds, read off its header: no tensor is loaded, and no torch is needed.

The format: https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data.opening import is_lfs_pointer, open_regular
from flashinfer_bench.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LENGTH_BYTES = 8
_LONGEST_HEADER = 100_000_000  # the format's own limit
_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F4": "float4_e2m1",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Element type, by its name in definitions, and shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """The tensors of one file by key; or, of one that cannot be read, the reason."""

    tensors: Mapping[str, StoredTensor]
    fault: str | None = None
    is_pointer: bool = False
    """Whether git-lfs left a pointer in place of the file."""


def read_header(path: Path) -> Header:
    """Read a header; a fault is part of the answer."""
    try:
        if is_lfs_pointer(path):
            return Header({}, is_pointer=True)
        return Header(_tensors(path))
    except DatasetError as error:
        return Header({}, fault=error.message)
    except OSError as error:
        return Header({}, fault=error.strerror or str(error))


def _tensors(path: Path) -> dict[str, StoredTensor]:
    with open_regular(path) as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        size = os.fstat(file.fileno()).st_size
        if not 0 < length <= min(_LONGEST_HEADER, size - _LENGTH_BYTES):
            raise DatasetError(f"no header of {length} bytes fits a file of {size}")
        text = file.read(length)
    try:
        header = json.loads(text)
        entries = {key: entry for key, entry in header.items() if key != "__metadata__"}
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
        tensors = {
            key: StoredTensor(_DTYPES.get(e["dtype"], e["dtype"]), tuple(map(int, e["shape"])))
            for key, e in entries.items()
        }
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError) as error:
        raise DatasetError(f"the header is no safetensors header ({error})") from None
    if _LENGTH_BYTES + length + end != size:
        raise DatasetError(f"{size} bytes, where {_LENGTH_BYTES + length + end} are announced")
    return tensors
