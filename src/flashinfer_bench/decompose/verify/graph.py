"""What each file is by itself: it runs at its sizes, holds nothing, writes nothing, and a parent only calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flashinfer_bench.decompose.verify.files import (
    NodeFile,
    attempt,
    held_tensors,
    tensors,
    versions,
)
from flashinfer_bench.decompose.verify.findings import Severity, Violation
from flashinfer_bench.decompose.verify.parent_operations import Watcher
from flashinfer_bench.decompose.verify.recompose import Child, foreign_children, with_children
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from flashinfer_bench.decompose.verify.layout import Port


@dataclass
class _Run:
    """One run of a file under a watcher."""

    inputs: Sequence[Any]
    outs: tuple[torch.Tensor, ...]
    watcher: Watcher
    calls: Counter[str]
    before: Sequence[int | None]


def check_file(
    file: NodeFile, files: Mapping[str, NodeFile], label: str, *, is_root: bool = False
) -> Iterator[Violation]:
    """Check one file by itself, on meta; where that cannot be, with values.

    The root takes the model's own inputs, used or not.
    """
    node_id = file.node.id
    model = attempt(lambda: _built(file), file.path, label, "FILE-fails", node_id)
    if isinstance(model, Violation):
        yield model
        return
    yield from _state_faults(file, model, label)
    yield from foreign_children(file, model, label) if not file.node.is_leaf else ()
    run = _run_somewhere(file, files, label)
    if isinstance(run, Violation):
        yield run
        return
    yield from _size_faults(file, run, label)
    free = set(file.input_names()) - set(_bound_names(file)) if is_root else set()
    yield from (each for each in _use_faults(file, run, label) if not _is_free(each, free))
    if not file.node.is_leaf:
        yield from _own_work(file, run, label)
        yield from _call_faults(file, run, label)


def _built(file: NodeFile) -> nn.Module:
    return file.build()


def _run_somewhere(file: NodeFile, files: Mapping[str, NodeFile], label: str) -> _Run | Violation:
    def on(device: str) -> Callable[[], _Run]:
        return lambda: _run(file, files, device)

    tried = attempt(on("meta"), file.path, label, "FILE-fails", file.node.id)
    if isinstance(tried, _Run):
        return tried
    return attempt(on("cpu"), file.path, label, "FILE-fails", file.node.id)


def _run(file: NodeFile, files: Mapping[str, NodeFile], device: str) -> _Run:
    watcher, calls = Watcher(file.path), Counter[str]()
    inputs = file.inputs(device)

    def on_call(child: Child, args: tuple[Any, ...]) -> Any:
        calls[child.file.node.id] += 1
        watcher.use(args)
        with watcher.inside_child():
            outs = models[child.file.node.id](*args)
        watcher.give(tensors(outs))
        return outs

    with torch.device(device):
        models = {name: files[name].build() for name in set(file.node.children) if name in files}
        model = with_children(file, file.build(), files, on_call)
        watcher.give(inputs)
        before = versions(inputs)
        with watcher.watching():
            given = model(*inputs)
    outs = tensors(given)
    watcher.use(outs)
    return _Run(inputs, outs, watcher, calls, before)


def _state_faults(file: NodeFile, model: nn.Module, label: str) -> Iterator[Violation]:
    for name in dict(held_tensors(model)):
        said = f"{file.node.id} holds the tensor {name}"
        yield found("FILE-state", label, said, node=file.node.id, tensor=name)


def _size_faults(file: NodeFile, run: _Run, label: str) -> Iterator[Violation]:
    node = file.node
    got = [list(each.shape) for each in run.outs]
    declared = attempt(file.declared, file.path, label, "FILE-shape", node.id)
    if isinstance(declared, Violation):
        yield declared
    elif declared != got:
        said = f"outputs have the shapes {got}; get_expected_output_shape() says {declared}"
        yield found("FILE-shape", label, said, node=node.id)
    for said in _port_faults(node.outputs, run.outs, "output"):
        yield found("FILE-shape", label, said, node=node.id)
    for said in _port_faults(node.inputs, run.inputs, "input"):
        yield found("FILE-sizes", label, said, node=node.id)
    names = file.input_names()
    if node.inputs is not None and [each.name for each in node.inputs] != names:
        said = f"forward takes {names}; the tree says {[each.name for each in node.inputs]}"
        yield found("LAY-tree", label, said, node=node.id)


def _port_faults(ports: Sequence[Port] | None, values: Sequence[Any], what: str) -> Iterator[str]:
    if ports is None:
        return
    if len(ports) != len(values):
        yield f"the file has {len(values)} {what}s, the tree lists {len(ports)}"
        return
    for port, value in zip(ports, values, strict=True):
        if not isinstance(value, torch.Tensor):
            continue
        shape, dtype = tuple(value.shape), str(value.dtype).removeprefix("torch.")
        if (shape, dtype) != (port.shape, port.dtype):
            listed = f"{port.dtype}{list(port.shape)} in the tree"
            yield f"{what} {port.name} is {dtype}{list(shape)} in the file, {listed}"


def _use_faults(file: NodeFile, run: _Run, label: str) -> Iterator[Violation]:
    node_id, names = file.node.id, file.input_names()
    after = versions(run.inputs)
    for name, value, old, new in zip(names, run.inputs, run.before, after, strict=False):
        if old != new:
            said = f"{node_id} writes into its input {name}"
            yield found("FILE-writes", label, said, node=node_id, tensor=name)
        if isinstance(value, torch.Tensor) and id(value) not in run.watcher.read:
            said = f"{node_id} never uses its input {name}"
            rank: Severity = "warning" if file.node.opaque else "error"
            yield found("FILE-unused", label, said, severity=rank, node=node_id, tensor=name)


def _bound_names(file: NodeFile) -> Iterator[str]:
    for instance in file.node.instances[:1]:
        yield from instance.bindings


def _is_free(finding: Violation, free: Collection[str]) -> bool:
    return finding.code == "FILE-unused" and finding.tensor in free


def _own_work(file: NodeFile, run: _Run, label: str) -> Iterator[Violation]:
    node_id = file.node.id
    for work in dict.fromkeys(run.watcher.work):
        code = "GRAPH-host" if work.is_host_read else "GRAPH-compute"
        shown = f": {work.text}" if work.text else ""
        said = f"{node_id} itself runs {work.name}{shown}"
        yield found(code, label, said, node=node_id, line=work.line, tensor=None)


def _call_faults(file: NodeFile, run: _Run, label: str) -> Iterator[Violation]:
    node = file.node
    listed = Counter(node.children)
    for child in listed | run.calls:
        if run.calls[child] == 0:
            said = f"{node.id} never calls its child {child}"
            yield found("GRAPH-uncalled", label, said, node=node.id)
        elif run.calls[child] != listed[child]:
            said = (
                f"{node.id} calls {child} {run.calls[child]} times; the tree lists {listed[child]}"
            )
            yield found("LAY-count", label, said, node=node.id)
