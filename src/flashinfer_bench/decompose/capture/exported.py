"""A trace by `torch.export`: for what the function mode cannot record, and to check it by another way."""

from __future__ import annotations

import contextlib
import operator
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

from flashinfer_bench.decompose.capture.encode import Values, encoded, place_in, structured
from flashinfer_bench.decompose.capture.scopes import is_users_file
from flashinfer_bench.decompose.ir import Dropped, Kind, Op, OpTrace, Ref, Scope
from flashinfer_bench.decompose.model_errors import NotRecordableError
from flashinfer_bench.decompose.module_tensors import NamedTensor, held_tensors
from flashinfer_bench.decompose.names import DROPOUTS, STOCHASTIC, call, tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import fx, nn
    from torch.export import ExportedProgram

    from flashinfer_bench.decompose.model_file import ModelSource

_KINDS: dict[InputKind, Kind] = {
    InputKind.USER_INPUT: "input",
    InputKind.PARAMETER: "param",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "const",
}
_PLACE = ("device", "layout", "pin_memory")
_FEW = 4096
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def export_counts(source: ModelSource, *, seed: int = 0) -> Counter[str] | None:
    """Count a model's operations by export, under aten's names without overloads; none if it cannot be exported.

    Only those count that read or make fractions: libraries build masks and positions in other ways when exported.
    """
    try:
        program = _exported(source.build("meta", seed), source.inputs("meta", seed))
    except Exception:  # noqa: BLE001  # export fails in many ways, each a reason to do without it
        return None
    return Counter(
        node.target._schema.name.partition("::")[2]
        for node in program.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
        and _has_fractions(node)
        and not _copies(node)
    )


def _has_fractions(node: fx.Node) -> bool:
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return any(each.is_floating_point() or each.is_complex() for each in tensors_in(values))


def _copies(node: fx.Node) -> bool:
    """Tell operations that move data by their names, and only copy here."""
    match node.target._schema.name.partition("::")[2]:  # type: ignore[union-attr]
        case "cat":
            return len(node.args[0]) == 1  # type: ignore[arg-type]
        case "pad" | "constant_pad_nd":
            return not any(node.args[1])  # type: ignore[arg-type]
        case _:
            return False


def exported_trace(name: str, model: nn.Module, inputs: Sequence[Any]) -> OpTrace:
    """Record what forward does by export; operations are aten's, under public names where they have one."""
    program = _exported(model, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = program.run_decompositions({})
    return _Reader(name, model, program).trace(list(inputs))


def _exported(model: nn.Module, inputs: Sequence[Any]) -> ExportedProgram:
    with warnings.catch_warnings(), torch.no_grad(), contextlib.redirect_stderr(None):
        warnings.simplefilter("ignore")
        return torch.export.export(model, tuple(inputs), strict=False)


class _Reader:
    """Reads an exported graph into values and operations."""

    def __init__(self, name: str, model: nn.Module, program: ExportedProgram) -> None:
        self._name = name
        self._cls = type(model).__name__
        self._program = program
        self._held = {
            name: each
            for each in held_tensors(model).values()
            for name in (each.name, *each.aliases)
        }
        self._values = Values()
        self._ops: list[Op] = []
        self._ids: dict[str, str] = {}
        self._parts: dict[str, tuple[str, ...]] = {}

    def trace(self, inputs: list[Any]) -> OpTrace:
        """Read it all."""
        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "call_function":
                self._call(node)
        signature = self._program.graph_signature
        results = [
            self._id(spec.arg.name)
            for spec in signature.output_specs
            if spec.kind is OutputKind.USER_OUTPUT and hasattr(spec.arg, "name")
        ]
        given = tuple(
            self._ids[spec.arg.name]
            for spec in signature.input_specs
            if spec.kind is InputKind.USER_INPUT and spec.arg.name in self._ids
        )
        outputs = tuple(dict.fromkeys(results))
        ops, dropped = _needed(self._ops, outputs)
        used = {*given, *outputs, *(each for op in ops for each in (*op.ins, *op.outs))}
        tensors = list({id(each): each for each in tensors_in(inputs)}.values())
        return OpTrace(
            model=self._name,
            values={key: value for key, value in self._values.items() if key in used},
            ops=ops,
            inputs=given,
            input_structure=structured(inputs, lambda each: place_in(tensors, each)),
            outputs=outputs,
            output_structure=self._output_structure(results, outputs),
            dropped=dropped,
            front_end="export",
        )

    def _output_structure(self, results: list[str], outputs: tuple[str, ...]) -> Any:
        spec = self._program.call_spec.out_spec
        assert spec is not None
        places = [outputs.index(each) for each in results]
        if spec.num_leaves != len(places):
            raise NotRecordableError("export returns what is no tensor")
        return torch.utils._pytree.tree_unflatten(places, spec)

    def _placeholder(self, node: fx.Node) -> None:
        spec = next(
            each for each in self._program.graph_signature.input_specs if each.arg.name == node.name
        )
        tensor = node.meta["val"]
        if not isinstance(tensor, torch.Tensor):
            return
        literal = self._program.constants.get(spec.target or "")
        if spec.kind is InputKind.CONSTANT_TENSOR and isinstance(literal, torch.Tensor):
            self._literal(node, literal)
            return
        if spec.kind not in _KINDS:
            raise NotRecordableError(f"export makes {node.name} an input of an unknown kind")
        held: NamedTensor | None = self._held.get(spec.target or "")
        name = held.name if held else spec.target or node.name
        aliases = held.aliases if held else ()
        self._ids[node.name] = self._new_value(_KINDS[spec.kind], tensor, name, aliases)

    def _literal(self, node: fx.Node, tensor: torch.Tensor) -> None:
        """Write a tensor that forward made from numbers as the call that makes it."""
        if tensor.is_meta or tensor.numel() > _FEW:
            raise NotRecordableError("forward makes a tensor from many numbers")
        value = self._ids[node.name] = self._new_value("inter", tensor, "tensor")
        kwargs = {"dtype": encoded(tensor.dtype, lambda _: "")}
        scope = (Scope("module", "", self._cls, 0),)
        self._ops.append(
            Op(len(self._ops), "torch.tensor", (tensor.tolist(),), kwargs, (value,), scope)
        )

    def _call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            parent, index = node.args
            self._ids[node.name] = self._parts[parent.name][index]  # type: ignore[union-attr,index]
            return
        made = node.meta.get("val")
        if isinstance(made, torch.SymInt | torch.SymFloat | torch.SymBool):
            return  # a number of the data: a check may ask for it, no operation
        if not isinstance(node.target, torch._ops.OpOverload):
            raise NotRecordableError(f"export makes a call of {node.target}")
        if made is None:  # checks of sizes and types
            return
        base = node.target._schema.name.partition("::")[2]
        outs = tuple(self._new_value("inter", each, base) for each in tensors_in(made))
        structure, count = None, iter(range(len(outs)))
        if isinstance(made, torch.Tensor):
            self._ids[node.name] = outs[0]
        else:
            self._parts[node.name] = outs
            structure = structured(made, lambda _: next(count))
        op = Op(
            id=len(self._ops),
            fn=f"torch.ops.{node.target}",
            args=self._encoded(node.args),
            kwargs={k: self._encoded(v) for k, v in node.kwargs.items() if k not in _PLACE},
            outs=outs,
            scope=tuple(_scopes(node)),
            source=_source(node),
            structure=structure,
            is_stochastic=base in STOCHASTIC | DROPOUTS,
        )
        self._ops.append(self._with_public_name(op, base))

    def _id(self, name: str) -> str:
        if name not in self._ids:
            raise NotRecordableError("a number depends on data")
        return self._ids[name]

    def _encoded(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return Ref(self._id(value.name))
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            raise NotRecordableError("a size depends on data")
        if isinstance(value, list | tuple):
            return type(value)(self._encoded(each) for each in value)
        return encoded(value, lambda _: "")

    def _with_public_name(self, op: Op, base: str) -> Op:
        """Call it `torch.add` rather than `torch.ops.aten.add.Tensor` where that does the same on meta."""
        for name in (f"torch.nn.functional.{base}", f"torch.{base}", f"torch.Tensor.{base}"):
            public = Op(**{**vars(op), "fn": name})
            if not op.is_stochastic and self._agrees(public):
                return public
        return op

    def _agrees(self, op: Op) -> bool:
        env = {
            each: torch.empty(
                self._values[each].shape,
                dtype=getattr(torch, self._values[each].dtype),
                device="meta",
            )
            for each in op.ins
        }
        try:
            with torch.device("meta"):
                made = call(op, env)
        except Exception:  # noqa: BLE001  # another signature, or none
            return False
        expected = [(self._values[out].shape, self._values[out].dtype) for out in op.outs]
        return [(tuple(t.shape), str(t.dtype).removeprefix("torch.")) for t in made] == expected

    def _new_value(
        self, kind: Kind, tensor: torch.Tensor, name: str, aliases: tuple[str, ...] = ()
    ) -> str:
        if any(not isinstance(size, int) for size in tensor.shape):
            raise NotRecordableError("a size depends on data")
        if tensor.layout is not torch.strided:
            raise NotRecordableError(f"a tensor has the layout {tensor.layout}")
        return self._values.add(kind, tensor, name, aliases)


def _needed(ops: list[Op], outputs: tuple[str, ...]) -> tuple[tuple[Op, ...], tuple[Dropped, ...]]:
    wanted, kept, dropped = set(outputs), [], []
    for op in reversed(ops):
        if wanted & set(op.outs):
            kept.append(op)
            wanted |= set(op.ins)
        else:
            dropped.append(Dropped(op.fn, op.scope, "side_effect"))
    return tuple(reversed(kept)), tuple(reversed(dropped))


def _scopes(node: fx.Node) -> Iterator[Scope]:
    for key, (path, cls) in (node.meta.get("nn_module_stack") or {}).items():
        name = cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"
        count = re.search(r"@(\d+)$", key)
        yield Scope(
            kind="module",
            path=path,
            cls=name.rpartition(".")[2],
            call=int(count[1]) if count else 0,
            is_library=name.startswith("torch."),
        )


def _source(node: fx.Node) -> str:
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [(path, line) for path, line in frames if is_users_file(path)]
    return f"{Path(own[-1][0]).name}:{own[-1][1]}" if own else ""


__all__ = ["export_counts", "exported_trace"]
