"""WKL, inputs: stored ones are there and hold what the definition says, random ones are what a reference can take."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from flashinfer_bench.data.opening import path_inside
from flashinfer_bench.data.rules.finding import Level, RuleFault, rule
from flashinfer_bench.data.rules.safetensors_header import Header, StoredTensor, read_header
from flashinfer_bench.data.rules.workload import fault_of, inputs_of, placed_lines
from flashinfer_bench.data.wording import did_you_mean, listed
from flashinfer_bench.data.workload import CustomInput, RandomInput, SafetensorsInput
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.rules.snapshot import Document, Snapshot
    from flashinfer_bench.data.shapes import TensorSpec
    from flashinfer_bench.data.trace import Trace
    from flashinfer_bench.data.workload import Workload


class _Stored(NamedTuple):
    """A tensor input whose workload names a file."""

    document: Document[Trace]
    definition: Definition
    workload: Workload
    name: str
    spec: TensorSpec
    source: SafetensorsInput


@rule("WKL-34", Level.ERROR, "name the function with `custom_inputs_entrypoint`")
def custom_inputs_have_a_function(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every input of type `custom` is made by a function that the definition names."""
    for document, definition, workload in placed_lines(dataset):
        for name, source in workload.inputs.items():
            if isinstance(source, CustomInput) and definition.custom_inputs_entrypoint is None:
                yield fault_of(document, f"input {name!r} is custom, and no function makes it")


@rule("WKL-14", Level.ERROR, "add the file, or correct the path, which is relative to the dataset")
def stored_files_exist(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every file that a workload names is there."""
    absent: dict[str, list[_Stored]] = {}
    for stored in _stored(dataset):
        path = _path(dataset, stored)
        if isinstance(path, DatasetError):
            message = f"input {stored.name!r}: {stored.source.path!r} {path.message}"
            yield fault_of(stored.document, message)
        elif not os.path.lexists(path):
            absent.setdefault(stored.document.path, []).append(stored)
    for first, *others in absent.values():  # a line for each file of workloads
        files = {each.source.path for each in others} - {first.source.path}
        more = f", and {count_text(len(files), 'more file')} of its workloads" if files else ""
        message = f"input {first.name!r}: no file {first.source.path!r}{more}"
        yield fault_of(first.document, message)


@rule("WKL-15", Level.ERROR, "correct `tensor_key`")
def stored_tensors_exist(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every tensor that a workload names is in its file."""
    for stored, header in _read(dataset):
        key = stored.source.tensor_key
        if key not in header.tensors:
            hint = did_you_mean(key, header.tensors) or f"; it holds {listed(header.tensors)}"
            message = f"input {stored.name!r}: {stored.source.path} holds no tensor {key!r}{hint}"
            yield fault_of(stored.document, message)


@rule("WKL-16", Level.ERROR, "store the tensor again, or correct the axes")
def stored_shapes_agree(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every stored tensor has the shape that definition and axes give."""
    for stored, tensor in _found(dataset):
        shape = _shape(stored)
        if shape is not None and tensor.shape != shape:
            message = f"input {stored.name!r} is {list(shape)}, the tensor {list(tensor.shape)}"
            yield fault_of(stored.document, message)


@rule("WKL-17", Level.ERROR, "store the tensors again")
def stored_files_can_be_read(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every file that a workload names is a whole safetensors file."""
    for stored in _stored(dataset):
        header = _header(dataset, stored)
        if header is not None and header.fault is not None:
            yield fault_of(stored.document, f"{stored.source.path} cannot be read: {header.fault}")


@rule("WKL-23", Level.INFO, "`git lfs pull` fetches it; a run fetches what it needs by itself")
def stored_files_are_fetched(dataset: Snapshot) -> Iterator[RuleFault]:
    """Stored tensors are here, and not a pointer that git-lfs left."""
    for stored in _stored(dataset):
        header = _header(dataset, stored)
        if header is not None and header.is_pointer:
            yield fault_of(
                stored.document, f"{stored.source.path} is not downloaded, so not checked"
            )


@rule("WKL-24", Level.ERROR, "store the tensor again, or correct the definition")
def dtypes_agree(dataset: Snapshot) -> Iterator[RuleFault]:
    """No source of an input has another dtype than the definition says."""
    for stored, tensor in _found(dataset):
        if tensor.dtype != str(stored.spec.dtype):
            message = f"input {stored.name!r} is {stored.spec.dtype}, the tensor {tensor.dtype}"
            yield fault_of(stored.document, message)
    for document, definition, workload in placed_lines(dataset):
        for name, source in workload.inputs.items():
            spec = definition.inputs.get(name)
            said = source.dtype if isinstance(source, RandomInput) else None
            if spec is not None and said not in (None, spec.dtype):
                yield fault_of(document, f"input {name!r} is {spec.dtype}, not {said}")


def _stored(dataset: Snapshot) -> Iterator[_Stored]:
    for document, definition, workload in placed_lines(dataset):
        for name, source in workload.inputs.items():
            spec = definition.inputs.get(name)
            if isinstance(source, SafetensorsInput) and spec is not None and spec.shape is not None:
                yield _Stored(document, definition, workload, name, spec, source)


def _read(dataset: Snapshot) -> Iterator[tuple[_Stored, Header]]:
    """Give the stored inputs whose file could be read."""
    for stored in _stored(dataset):
        header = _header(dataset, stored)
        if header is not None and header.fault is None and not header.is_pointer:
            yield stored, header


def _found(dataset: Snapshot) -> Iterator[tuple[_Stored, StoredTensor]]:
    for stored, header in _read(dataset):
        tensor = header.tensors.get(stored.source.tensor_key)
        if tensor is not None:
            yield stored, tensor


def _shape(stored: _Stored) -> tuple[int, ...] | None:
    """Give the shape there must be; None where axes are at fault or elements are packed."""
    try:
        values = stored.definition.resolve_axes(stored.workload.axes)
    except ValueError:  # WKL-05 and WKL-10 say so
        return None
    if str(stored.spec.dtype) == "float4_e2m1":
        return None
    return tuple(values[axis] for axis in stored.spec.shape or ())


def _path(dataset: Snapshot, stored: _Stored) -> Path | DatasetError:
    try:
        return path_inside(dataset.root, stored.source.path)
    except DatasetError as error:
        return error


def _header(dataset: Snapshot, stored: _Stored) -> Header | None:
    """Read a header once; None where there is no file."""
    path = _path(dataset, stored)
    if isinstance(path, DatasetError):
        return None
    if path not in dataset.headers:
        dataset.headers[path] = read_header(path) if os.path.lexists(path) else None
    return dataset.headers[path]


_TOTALS = r"^(total|nnz|num)_(?!q?k?v?o?_?heads)|_(total|nnz)$"
_POOLS = r"pages|blocks|pool|vocab|experts|_slots|cache"
_LENGTHS = r"^max_|seq_?len|page_size"
_INDEX_DTYPES = ("int32", "int64")
_PACKED = re.compile(r"\b(packed|encodes?)\b", re.IGNORECASE)
"""Begins to say in a description that a number holds several: no distribution draws those."""
_REMEDIES = {
    r"(^|_)(indptr|cu_seqlens)(_|$)": ('{"type": "index_pointers", "total": %s}', _TOTALS),
    r"(page|block)_tables?(_|$)": ('{"type": "page_table", "pages": %s}', _POOLS),
    r"(^|_)positions(_|$)": ('{"type": "integers", "high": %s}', _LENGTHS),
    r"(^|_)(indices|index|ids)(_|$)": ('{"type": "integers", "high": %s}', _POOLS),
    r"(^|_)(lens?|lengths?)(_|$)": ('{"type": "integers", "low": 1, "high": %s}', _LENGTHS),
}
"""What a name says that an input holds, what to declare then, and which axes its limit may be."""


@rule("WKL-30", Level.ERROR, "correct the distribution; docs/formats.md lists them")
def _distributions_fit(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every declared distribution can be drawn: dtype, shape and numbers fit."""
    for document, definition, workload in placed_lines(dataset):
        try:
            axes = definition.resolve_axes(workload.axes)
        except ValueError:  # WKL-05 and WKL-10 say so
            continue
        for name, source in workload.inputs.items():
            spec = definition.inputs.get(name)
            if spec is None or not isinstance(source, RandomInput) or source.distribution is None:
                continue
            shape = None if spec.shape is None else [axes[axis] for axis in spec.shape]
            fault = source.distribution.fault(str(spec.dtype), shape, axes)
            if fault is not None:
                kind = source.distribution.type
                yield fault_of(document, f"input {name!r}: {kind!r} {fault}")


@rule("WKL-31", Level.WARNING, "declare what is legal, or store the values in a file")
def _indices_are_legal(dataset: Snapshot) -> Iterator[RuleFault]:
    """Integers whose name says that they point somewhere are not drawn from [-1024, 1024)."""
    for document, name, spec, source in inputs_of(dataset):
        is_plain = isinstance(source, RandomInput) and source.distribution is None
        if is_plain and spec.shape is not None and str(spec.dtype) in _INDEX_DTYPES:
            assert document.entity is not None
            declared = _declaration_for(name, dataset.definitions[document.entity.definition])
            if declared is not None:
                message = (
                    f"input {name!r} is drawn from [-1024, 1024): no reference can follow that"
                )
                remedy = f'give it `"distribution": {declared}`, or store its values in a file'
                if _PACKED.search(spec.description or ""):
                    remedy = "store its values in a file: its description says that they are packed"
                yield fault_of(document, message, remedy=remedy)


def _declaration_for(name: str, definition: Definition) -> str | None:
    """Write the distribution that a name asks for; its limit is the axis that a constraint or a name tells."""
    for words, (declared, axes) in _REMEDIES.items():
        if re.search(words, name):
            return declared % _limit(name, axes, definition)
    return None


def _limit(name: str, words: str, definition: Definition) -> str:
    """Name the axis that limits an input: the one that a constraint sets equal to its last element, or by name."""
    last = re.compile(rf"^(\w+) == {re.escape(name)}\[-1\](\.item\(\))?$")
    told = [found[1] for text in definition.constraints if (found := last.match(text.strip()))]
    own = definition.inputs[name].shape or []
    named = [axis for axis in definition.axes if re.search(words, axis) and axis not in own]
    axes = [axis for axis in (*told, *named) if axis in definition.axes]
    return f'"{axes[0]}"' if axes else "…"
