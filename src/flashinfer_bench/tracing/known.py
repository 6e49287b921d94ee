"""Which workloads a file holds already, whoever wrote them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import msgspec


class _KnownWorkload(msgspec.Struct):
    uuid: str


class _Line(msgspec.Struct):
    workload: _KnownWorkload


_DECODER = msgspec.json.Decoder(_Line)


@dataclass(slots=True)
class _KnownFile:
    read_bytes: int = 0
    uuids: set[str] = field(default_factory=set)


class KnownWorkloads:
    """Reads each file once, and then only what was appended since."""

    def __init__(self) -> None:
        self._files: dict[str, _KnownFile] = {}

    def holds(self, path: str, uuid: str) -> bool:
        """Tell whether the file has a line of this uuid."""
        file = self._files.setdefault(path, _KnownFile())
        _read_on(path, file)
        return uuid in file.uuids


def _read_on(path: str, file: _KnownFile) -> None:
    try:
        size = os.stat(path).st_size  # noqa: PTH116 - once a workload
    except (FileNotFoundError, NotADirectoryError):
        size = 0
    if size < file.read_bytes:  # replaced or emptied
        file.read_bytes = 0
        file.uuids.clear()
    if size == file.read_bytes:
        return
    with open(path, "rb") as opened:  # noqa: PTH123
        opened.seek(file.read_bytes)
        whole, _, _ = opened.read().rpartition(b"\n")
    for line in whole.split(b"\n"):
        try:
            file.uuids.add(_DECODER.decode(line).workload.uuid)
        except msgspec.DecodeError:
            continue  # the loader complains about it
    file.read_bytes += len(whole) + bool(whole)
