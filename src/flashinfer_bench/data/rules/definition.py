"""DEF: definitions can be read, say what they mean, and mean different things."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING

from flashinfer_bench.data import expressions
from flashinfer_bench.data.rules.finding import Level, RuleFault, rule
from flashinfer_bench.data.rules.python_source import functions_of, parameters, takes
from flashinfer_bench.data.shapes import AxisExpr
from flashinfer_bench.data.wording import did_you_mean, listed
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.rules.snapshot import Document, Snapshot

KNOWN_OP_TYPES = (
    *("gemm", "gemm_fp8", "rmsnorm", "fused_add_rmsnorm", "rope", "sampling", "moe", "softmax"),
    *("silu_and_mul", "gqa_paged", "gqa_ragged", "mla_paged", "mla_ragged", "dsa_paged", "gdn"),
    "mamba_ssu",
)
"""Op types in use; others are welcome, so only near misses are pointed out."""
_MISTYPED = 0.85
_DESCRIBE = "add a `description`"


@rule("DEF-01", Level.ERROR, "correct the file; `flashinfer-bench schema definition` says how")
def definitions_parse(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every definition can be read."""
    for document in dataset.definition_files:
        if document.fault is not None:
            yield RuleFault(document.fault, document.path, document.fault_line, document.stem)


@rule("DEF-02", Level.WARNING, _DESCRIBE)
def definitions_are_described(dataset: Snapshot) -> Iterator[RuleFault]:
    """Definitions say in words what they compute."""
    for document, definition in _readable(dataset):
        if not definition.description:
            yield RuleFault("no description", document.path, None, definition.name)


@rule("DEF-03", Level.WARNING, _DESCRIBE)
def axes_are_described(dataset: Snapshot) -> Iterator[RuleFault]:
    """Axes say what they stand for."""
    for document, definition in _readable(dataset):
        yield from _undescribed(document, definition, "axis", definition.axes)


@rule("DEF-04", Level.WARNING, _DESCRIBE)
def inputs_are_described(dataset: Snapshot) -> Iterator[RuleFault]:
    """Inputs say what they hold."""
    for document, definition in _readable(dataset):
        yield from _undescribed(document, definition, "input", definition.inputs)


@rule("DEF-05", Level.WARNING, _DESCRIBE)
def outputs_are_described(dataset: Snapshot) -> Iterator[RuleFault]:
    """Outputs say what they hold."""
    for document, definition in _readable(dataset):
        yield from _undescribed(document, definition, "output", definition.outputs)


@rule("DEF-07", Level.ERROR, "remove it, or correct its spelling")
def definitions_have_known_keys(dataset: Snapshot) -> Iterator[RuleFault]:
    """Definitions have no keys that nothing reads."""
    for document, definition in _readable(dataset):
        if document.unknown_keys is not None:
            message = document.unknown_keys
            yield RuleFault(message, document.path, document.fault_line, definition.name)


@rule("DEF-08", Level.WARNING, "keep one, and move the other's workloads and solutions to it")
def definitions_differ(dataset: Snapshot) -> Iterator[RuleFault]:
    """No two definitions have the same op type, axes, inputs, outputs and reference."""
    first: dict[str, str] = {}
    for document, definition in _readable(dataset):
        other = first.setdefault(identity(definition), definition.name)
        if other != definition.name:
            message = f"defines what {other!r} defines"
            yield RuleFault(message, document.path, None, definition.name)


@rule(
    "DEF-09",
    Level.INFO,
    "write it over axes and shapes only, if it can be; else it stays a comment",
)
def constraints_can_be_evaluated(dataset: Snapshot) -> Iterator[RuleFault]:
    """Constraints speak of axes and shapes (`x.shape[0]`) only, and so can be checked."""
    for document, definition in _readable(dataset):
        texts = definition.unevaluable_constraints
        if texts:
            noun = "constraint" if len(texts) == 1 else "constraints"
            message = f"{noun} {listed(texts)} cannot be evaluated{_stranger(texts, definition)}"
            yield RuleFault(message, document.path, None, definition.name)


@rule("DEF-10", Level.WARNING, "use it in the shape of an input, or make it a constant")
def variable_axes_can_be_inferred(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every variable axis can be read off some input's shape."""
    for document, definition in _readable(dataset):
        for axis in definition.var_axes:
            if axis not in definition.var_axes_bindings:
                message = f"variable axis {axis!r} is in no input's shape"
                yield RuleFault(message, document.path, None, definition.name)


@rule("DEF-11", Level.INFO, "remove it if it has no meaning")
def constant_axes_are_used(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every constant or derived axis is used in a shape, an expression, a constraint or the reference."""
    for document, definition in _readable(dataset):
        used = _used_axes(definition) | set(definition.var_axes)
        unused = [axis for axis in definition.axes if axis not in used]
        if unused:
            noun = "axis" if len(unused) == 1 else "axes"
            message = f"nothing uses {noun} {listed(unused)}"
            yield RuleFault(message, document.path, None, definition.name)


@rule("DEF-12", Level.INFO, "`validate --fix` adds it")
def axes_say_their_type(dataset: Snapshot) -> Iterator[RuleFault]:
    """Axes carry their `type`; some readers guess it otherwise."""
    for document, definition in _readable(dataset):
        bare = [
            name for name, axis in definition.axes.items() if "type" not in axis.model_fields_set
        ]
        if bare:
            message = f"no `type` in {'axis' if len(bare) == 1 else 'axes'} {listed(bare)}"
            yield RuleFault(message, document.path, None, definition.name)


@rule("DEF-13", Level.INFO, "correct it, if it is a misspelling")
def op_types_are_spelt_right(dataset: Snapshot) -> Iterator[RuleFault]:
    """No op type is almost, but not quite, one that others use."""
    for document, definition in _readable(dataset):
        op_type = definition.op_type
        if op_type in KNOWN_OP_TYPES:
            continue
        hint = did_you_mean(op_type, KNOWN_OP_TYPES, cutoff=_MISTYPED)
        if hint:
            yield RuleFault(
                f"op_type {op_type!r} is not a usual one{hint}",
                document.path,
                None,
                definition.name,
            )


@rule("DEF-14", Level.ERROR, "let `run` take the inputs, in their order")
def references_take_the_inputs(dataset: Snapshot) -> Iterator[RuleFault]:
    """The reference's `run` can be called with the inputs."""
    for document, definition in _readable(dataset):
        run = (functions_of(definition.reference) or {}).get("run")
        if run is not None and not takes(run, len(definition.inputs)):
            message = (
                f"the reference is run({ast.unparse(run.args)}), but there are "
                f"{count_text(len(definition.inputs), 'input')}: {listed(definition.inputs)}"
            )
            yield RuleFault(message, document.path, None, definition.name)


@rule("DEF-15", Level.WARNING, "give inputs and parameters the same order: the call is positional")
def references_take_the_inputs_in_order(dataset: Snapshot) -> Iterator[RuleFault]:
    """The reference's parameters are not the inputs in another order."""
    for document, definition in _readable(dataset):
        run = (functions_of(definition.reference) or {}).get("run")
        if run is None:
            continue
        names = list(parameters(run))[: len(definition.inputs)]
        if names != list(definition.inputs) and sorted(names) == sorted(definition.inputs):
            message = (
                f"the reference takes {listed(names)}, the inputs are {listed(definition.inputs)}"
            )
            yield RuleFault(message, document.path, None, definition.name)


def identity(definition: Definition) -> str:
    """Give what makes two definitions the same: everything but names, words and formatting."""
    signature = definition.signature().to_dict()
    content = {
        "op_type": definition.op_type,
        "axes": signature["axes"],
        "inputs": list(signature["inputs"].items()),
        "outputs": list(signature["outputs"].items()),
        "reference": _normalised(definition.reference),
    }
    return json.dumps(content, sort_keys=True)


def _normalised(source: str) -> str:
    """Give a source without comments, formatting and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    return ast.dump(tree)


def _readable(dataset: Snapshot) -> Iterator[tuple[Document[Definition], Definition]]:
    for document in dataset.definition_files:
        if document.entity is not None:
            yield document, document.entity


def _undescribed(
    document: Document[Definition], definition: Definition, noun: str, things: Mapping[str, object]
) -> Iterator[RuleFault]:
    bare = [name for name, thing in things.items() if not getattr(thing, "description", None)]
    if bare:
        plural = {"axis": "axes"}.get(noun, f"{noun}s")
        message = f"no description of {noun if len(bare) == 1 else plural} {listed(bare)}"
        yield RuleFault(message, document.path, None, definition.name)


def _stranger(constraints: Sequence[str], definition: Definition) -> str:
    """Point at a name in a constraint that is neither axis nor input."""
    known = [*definition.axes, *definition.inputs, *definition.outputs, "min", "max", "abs"]
    trees = (ast.parse(text.strip(), mode="eval") for text in constraints)
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Name) and node.id not in known:
            return f": {node.id!r} is no axis{did_you_mean(node.id, known)}"
    return ""


def _used_axes(definition: Definition) -> set[str]:
    specs = (*definition.inputs.values(), *definition.outputs.values())
    used = {axis for spec in specs for axis in spec.shape or ()}
    texts = [axis.expression for axis in definition.axes.values() if isinstance(axis, AxisExpr)]
    texts += [text for text in (definition.min_bytes, definition.min_flops) if text]
    for text in texts:
        used |= expressions.parse(text).names
    for text in (*(each.strip() for each in definition.constraints), definition.reference):
        used |= {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    return used
