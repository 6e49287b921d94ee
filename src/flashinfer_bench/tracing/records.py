"""A traced call as it lies on disk: a line, and a file of tensors."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetensors.torch import save

from flashinfer_bench.data import (
    WORKLOAD_NAMESPACE,
    InputSpec,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Trace,
    Workload,
)
from flashinfer_bench.data.workload import uuid_of

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.data import Definition
    from flashinfer_bench.data.layout import Layout
    from flashinfer_bench.tracing.entry import WorkloadEntry


@dataclass(frozen=True, slots=True)
class Record:
    """What is to be written for one entry. The same call always gives the same uuid."""

    definition: Definition
    trace: Trace
    blob_path: Path | None
    blob: bytes

    @property
    def uuid(self) -> str:
        """The workload's identity, made of its content."""
        return self.trace.workload.uuid


def record_of(entry: WorkloadEntry, definition: Definition, layout: Layout) -> Record:
    """Render an entry; tensors that were not copied become random inputs."""
    if not entry.inputs_to_dump:
        inputs = _inputs(entry, definition, "")
        axes = dict(entry.axes)
        own = uuid_of(definition.name, axes, inputs)
        workload = Workload(axes=axes, inputs=inputs, uuid=own)
        return Record(definition, _trace(definition, workload), None, b"")
    blob = save(dict(entry.inputs_to_dump))
    identity = _identity(definition, entry, blob)
    path = layout.blob_file(definition, identity)
    inputs = _inputs(entry, definition, path.relative_to(layout.root).as_posix())
    workload = Workload(axes=dict(entry.axes), inputs=inputs, uuid=identity)
    return Record(definition, _trace(definition, workload), path, blob)


def _trace(definition: Definition, workload: Workload) -> Trace:
    return Trace(definition=definition.name, workload=workload)


def _inputs(entry: WorkloadEntry, definition: Definition, path: str) -> dict[str, InputSpec]:
    inputs: dict[str, InputSpec] = {}
    for name in definition.inputs:
        if name in entry.scalars:
            inputs[name] = ScalarInput(value=entry.scalars[name])
        elif name in entry.inputs_to_dump:
            inputs[name] = SafetensorsInput(path=path, tensor_key=name)
        else:
            inputs[name] = RandomInput()
    return inputs


def _identity(definition: Definition, entry: WorkloadEntry, blob: bytes) -> str:
    content = {
        "definition": definition.name,
        "axes": dict(entry.axes),
        "scalars": {name: repr(value) for name, value in entry.scalars.items()},
        "blob": hashlib.sha256(blob).hexdigest(),
    }
    return str(uuid.uuid5(WORKLOAD_NAMESPACE, json.dumps(content, sort_keys=True)))
