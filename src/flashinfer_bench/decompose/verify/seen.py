"""What was seen while a decomposition ran: the borders of its leaves, the sizes and weights of its nodes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.verify.bindings import observed, owners
from flashinfer_bench.decompose.verify.cover import Border, Known
from flashinfer_bench.decompose.verify.files import NodeFile, attempt
from flashinfer_bench.decompose.verify.findings import Violation
from flashinfer_bench.decompose.verify.rules import found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flashinfer_bench.decompose.verify.originals import OriginalRun
    from flashinfer_bench.decompose.verify.recompose import NodeCall
    from flashinfer_bench.decompose.verify.values import Fingerprint

Sizes = tuple[tuple[tuple[int, ...], str] | None, ...]


class SeenSizes:
    """Observes the sizes that each node is given."""

    def __init__(self) -> None:
        self.met: dict[str, set[Sizes]] = defaultdict(set)

    def observe(self, call: NodeCall) -> None:
        """Take one call."""
        self.met[call.node.id].add(sizes_of(call.ins))

    def faults(self, files: Mapping[str, NodeFile]) -> Iterator[Violation]:
        """Find files whose own inputs have sizes that never occur in the original."""
        for name, met in self.met.items():
            file = files[name]
            own = attempt(
                lambda file=file: sizes_of(file.inputs("meta")),  # type: ignore[misc]
                file.path, file.node.file, "FILE-fails", name,
            )  # fmt: skip
            if isinstance(own, Violation):
                yield own
            elif own not in met:
                yield from _size_faults(file, own, sorted(met, key=repr)[0])


class Seen:
    """Observes every call of a node."""

    def __init__(self, original: OriginalRun) -> None:
        self.original = original
        self.known = Known(original.marks)
        self.borders: list[Border] = []
        self.unknown: dict[Fingerprint, torch.Tensor] = {}
        """Tensors of leaves that the original does not have bit by bit."""
        self.sizes = SeenSizes()
        self.bindings: dict[str, list[Mapping[int, frozenset[str]]]] = defaultdict(list)
        self._owners = owners(original)

    def observe(self, call: NodeCall) -> None:
        """Take one call."""
        self.sizes.observe(call)
        self.bindings[call.node.id].append(observed(self._owners, call.ins))
        if call.node.is_leaf:
            ins = tuple(
                (name, self._marked(each))
                for name, each in zip(call.names, call.ins, strict=False)
                if isinstance(each, torch.Tensor)
            )
            self.borders.append(
                Border(call.node, call.path, ins, tuple(map(self._marked, call.outs)))
            )

    def _marked(self, tensor: torch.Tensor) -> Fingerprint:
        key = self.original.marker(tensor)
        if not self.known.values(key):
            self.unknown.setdefault(key, tensor.detach().clone())
        return key


def sizes_of(values: Any) -> Sizes:
    """Shapes and dtypes of inputs."""
    return tuple(
        (tuple(each.shape), str(each.dtype).removeprefix("torch."))
        if isinstance(each, torch.Tensor)
        else None
        for each in values
    )


def _size_faults(file: NodeFile, own: Sizes, met: Sizes) -> Iterator[Violation]:
    node = file.node
    for name, has, wants in zip(file.input_names(), own, met, strict=False):
        if has != wants and has is not None and wants is not None:
            said = (
                f"get_inputs() makes {name} as {has[1]}{list(has[0])}; "
                f"in the original's run it is {wants[1]}{list(wants[0])}"
            )
            yield found("FILE-sizes", node.file, said, node=node.id, tensor=name)
