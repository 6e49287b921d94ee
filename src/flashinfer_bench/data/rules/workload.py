"""WKL: workloads fit their definitions, and can be told apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from flashinfer_bench.data.rules.finding import Level, RuleFault, rule
from flashinfer_bench.data.rules.snapshot import stem
from flashinfer_bench.data.wording import did_you_mean, listed
from flashinfer_bench.data.workload import (
    RandomInput,
    SafetensorsInput,
    ScalarInput,
)
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flashinfer_bench.data.definition import Definition
    from flashinfer_bench.data.rules.snapshot import Document, Snapshot
    from flashinfer_bench.data.shapes import TensorSpec
    from flashinfer_bench.data.trace import Trace
    from flashinfer_bench.data.workload import InputSpec, Workload

_CORRECT = "correct the workload's `inputs`"


@rule("WKL-01", Level.WARNING, "add a line to its file under `workloads/`")
def definitions_have_workloads(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every definition has workloads."""
    for document in dataset.definition_files:
        definition = document.entity
        if definition is not None and definition.name not in dataset.workloads_by_definition:
            yield RuleFault("no workloads", definition=definition.name)


@rule("WKL-02", Level.ERROR, "correct the line; `flashinfer-bench schema trace` says how")
def workloads_parse(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every line of a workload file can be read."""
    for document in dataset.workload_lines:
        if document.fault is not None:
            owner = (
                stem(document.path) if stem(document.path) in dataset.known_definitions else None
            )
            yield RuleFault(document.fault, document.path, document.line, owner)


@rule("WKL-03", Level.ERROR, "correct the definition first")
def workloads_can_be_checked(dataset: Snapshot) -> Iterator[RuleFault]:
    """Workloads belong to definitions that can be read."""
    for name, documents in dataset.workloads_by_definition.items():
        if name in dataset.unread_definitions and name not in dataset.definitions:
            count = count_text(len(documents), "workload")
            message = f"{count} cannot be checked: the definition cannot be read"
            yield RuleFault(message, documents[0].path, None, name)


@rule("WKL-04", Level.ERROR, "move the line to a file under `traces/`")
def workload_files_hold_no_results(dataset: Snapshot) -> Iterator[RuleFault]:
    """Lines of workload files carry neither a solution nor an evaluation."""
    for document in dataset.workload_lines:
        trace = document.entity
        if trace is not None and not trace.is_workload_trace():
            yield fault_of(document, "carries a result; here only workloads belong")


@rule("WKL-05", Level.ERROR, "add the axes")
def variable_axes_have_lengths(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every variable axis has a length."""
    for document, definition, workload in placed_lines(dataset):
        missing = [axis for axis in definition.var_axes if axis not in workload.axes]
        if missing:
            yield fault_of(document, f"no length for axis {listed(missing)}")


@rule("WKL-06", Level.ERROR, "remove the axis, or correct its spelling")
def axes_exist(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every axis of a workload is one of its definition."""
    for document, definition, workload in placed_lines(dataset):
        for axis in workload.axes:
            if axis not in definition.axes:
                hint = did_you_mean(axis, definition.axes)
                yield fault_of(document, f"{definition.name!r} has no axis {axis!r}{hint}")


@rule("WKL-07", Level.INFO, "nothing need be done if empty tensors are meant")
def axes_are_positive(dataset: Snapshot) -> Iterator[RuleFault]:
    """No axis has the length 0: such workloads are judged for correctness only, and not ranked."""
    yield from _per_file(dataset, "an axis of length 0", _has_empty_axis)


@rule("WKL-08", Level.ERROR, 'add them, as {"type": "random"} if nothing else')
def inputs_are_complete(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every input of the definition has a source."""
    for document, definition, workload in placed_lines(dataset):
        missing = [
            name
            for name, spec in definition.inputs.items()
            if name not in workload.inputs and not spec.optional
        ]
        if missing:
            yield fault_of(document, f"no source for input {listed(missing)}")


@rule("WKL-09", Level.ERROR, "remove it, or correct its spelling")
def inputs_exist(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every input of a workload is one of its definition."""
    for document, definition, workload in placed_lines(dataset):
        for name in workload.inputs:
            if name not in definition.inputs:
                hint = did_you_mean(name, definition.inputs)
                yield fault_of(document, f"{definition.name!r} has no input {name!r}{hint}")


@rule("WKL-10", Level.ERROR, "correct the axes, or the expression of the derived axis")
def shapes_can_be_computed(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every shape has a value for these axes."""
    for document, definition, workload in placed_lines(dataset):
        if workload.axes.keys() >= set(definition.var_axes):
            try:
                definition.resolve_axes(workload.axes)
            except ValueError as error:
                yield fault_of(document, str(error))


@rule("WKL-11", Level.ERROR, _CORRECT)
def tensors_are_no_scalars(dataset: Snapshot) -> Iterator[RuleFault]:
    """No tensor input gets a scalar."""
    for document, name, spec, source in inputs_of(dataset):
        if isinstance(source, ScalarInput) and spec.shape is not None:
            yield fault_of(document, f"input {name!r} is a tensor, its source a scalar")


@rule("WKL-12", Level.WARNING, "give its value: other readers of the format refuse a random one")
def scalars_are_not_random(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every scalar input has its value in the workload."""
    for document, name, spec, source in inputs_of(dataset):
        if isinstance(source, RandomInput) and spec.shape is None:
            yield fault_of(document, f"input {name!r} is a scalar, its source random")


@rule("WKL-13", Level.ERROR, _CORRECT)
def scalars_are_not_stored(dataset: Snapshot) -> Iterator[RuleFault]:
    """No scalar input comes from a file of tensors."""
    for document, name, spec, source in inputs_of(dataset):
        if isinstance(source, SafetensorsInput) and spec.shape is None:
            yield fault_of(document, f"input {name!r} is a scalar, its source a file of tensors")


@rule("WKL-19", Level.ERROR, "remove it, or correct its spelling")
def workloads_have_known_keys(dataset: Snapshot) -> Iterator[RuleFault]:
    """Workloads have no keys that nothing reads."""
    for document in dataset.workload_lines:
        if document.unknown_keys is not None:
            yield fault_of(document, document.unknown_keys)


@rule("WKL-20", Level.ERROR, "give one of them another uuid")
def uuids_are_unique(dataset: Snapshot) -> Iterator[RuleFault]:
    """No two workloads share a uuid."""
    first: dict[str, Document[Trace]] = {}
    for documents in dataset.workloads_by_definition.values():
        for document in documents:
            assert document.entity is not None
            uuid = document.entity.workload.uuid
            other = first.setdefault(uuid, document)
            if other is document:
                continue
            is_same = other.entity == document.entity
            message = f"uuid {uuid!r} is that of {other.path}:{other.line}"
            remedy = "delete one of the two lines: they are the same workload" if is_same else None
            yield fault_of(document, message, Level.WARNING if is_same else None, remedy)


@rule("WKL-21", Level.ERROR, "add the definition, or correct the name")
def workloads_have_definitions(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every workload belongs to a definition that exists."""
    for name, documents in dataset.workloads_by_definition.items():
        if name not in dataset.known_definitions:
            hint = did_you_mean(name, dataset.known_definitions)
            message = (
                f"{count_text(len(documents), 'workload')} of {name!r}, which does not exist{hint}"
            )
            yield RuleFault(message, documents[0].path, documents[0].line)


@rule("WKL-22", Level.ERROR, "leave it out, or repeat the definition's value")
def fixed_axes_agree(dataset: Snapshot) -> Iterator[RuleFault]:
    """A workload that repeats a constant or derived axis agrees with the definition."""
    for document, definition, workload in placed_lines(dataset):
        try:
            values = definition.resolve_axes(workload.axes)
        except ValueError:  # WKL-05 and WKL-10 say so
            continue
        for axis, length in workload.axes.items():
            if values.get(axis, length) != length:
                yield fault_of(document, f"axis {axis!r} is {values[axis]}, not {length}")


@rule("WKL-25", Level.ERROR, "correct the axes, or the constraint")
def constraints_hold(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every constraint of the definition that can be evaluated holds."""
    for document, definition, workload in placed_lines(dataset):
        try:
            violated = definition.violated_constraints(workload.axes)
        except ValueError:  # WKL-05 and WKL-10 say so
            continue
        for text in violated:
            axes = ", ".join(f"{axis}={length}" for axis, length in workload.axes.items())
            yield fault_of(document, f"{axes} violates {text!r}")


@rule(
    "WKL-32",
    Level.ERROR,
    "correct the expression: what no correct kernel can avoid, in bytes or operations",
)
def minima_have_values(dataset: Snapshot) -> Iterator[RuleFault]:
    """The bytes and operations a definition declares as a minimum have a value, and not a negative one."""
    for document, definition, workload in placed_lines(dataset):
        for field in ("min_bytes", "min_flops"):
            axes = ", ".join(f"{axis}={length}" for axis, length in workload.axes.items())
            try:
                definition.resolve_axes(workload.axes)
            except ValueError:  # WKL-05 and WKL-10 say so
                continue
            try:
                least = definition.lower_bound(field, workload.axes)
            except ValueError as error:
                yield fault_of(document, f"{field} has no value with {axes}: {error}")
                continue
            if least is not None and not least >= 0:
                yield fault_of(document, f"{field} is {least} with {axes}")


@rule("WKL-26", Level.INFO, "`validate --fix` writes it down")
def workloads_have_uuids(dataset: Snapshot) -> Iterator[RuleFault]:
    """Workloads carry their uuid; other readers do not derive it."""
    yield from _per_file(dataset, "no uuid", _has_no_uuid)


@rule("WKL-28", Level.INFO, "`validate --fix` adds it")
def inputs_say_their_type(dataset: Snapshot) -> Iterator[RuleFault]:
    """Inputs carry their `type`; some readers guess it otherwise."""
    yield from _per_file(dataset, "an input without `type`", _has_bare_input)


@rule("WKL-29", Level.WARNING, "give a value of the definition's dtype")
def scalar_values_fit(dataset: Snapshot) -> Iterator[RuleFault]:
    """A scalar's value is of the kind its dtype says."""
    for document, name, spec, source in inputs_of(dataset):
        if isinstance(source, ScalarInput) and spec.shape is None:
            kind = _kind_of(source.value)
            if kind not in _kinds_for(str(spec.dtype)):
                message = f"input {name!r} is {spec.dtype}, its value {source.value!r} is {kind}"
                yield fault_of(document, message)


def placed_lines(dataset: Snapshot) -> Iterator[tuple[Document[Trace], Definition, Workload]]:
    """Give every readable workload with its definition, where that can be read too."""
    for name, documents in dataset.workloads_by_definition.items():
        definition = dataset.definitions.get(name)
        if definition is not None:
            for document in documents:
                assert document.entity is not None
                yield document, definition, document.entity.workload


def inputs_of(
    dataset: Snapshot,
) -> Iterator[tuple[Document[Trace], str, TensorSpec, InputSpec]]:
    """Give every input that a definition and its workload both name."""
    for document, definition, workload in placed_lines(dataset):
        for name, source in workload.inputs.items():
            if name in definition.inputs:
                yield document, name, definition.inputs[name], source


def fault_of(
    document: Document[Trace], message: str, level: Level | None = None, remedy: str | None = None
) -> RuleFault:
    """Make a fault of one workload line."""
    definition = document.entity.definition if document.entity else None
    return RuleFault(message, document.path, document.line, definition, level, remedy)


def _per_file(dataset: Snapshot, what: str, is_so: Callable[[Trace], bool]) -> Iterator[RuleFault]:
    """Report what many lines of a file share in one sentence."""
    counts: Counter[tuple[str, str]] = Counter()
    totals: Counter[tuple[str, str]] = Counter()
    first: defaultdict[tuple[str, str], int | None] = defaultdict(lambda: None)
    for document in dataset.workload_lines:
        if document.entity is None:
            continue
        key = (document.path, document.entity.definition)
        totals[key] += 1
        if is_so(document.entity):
            counts[key] += 1
            if first[key] is None:
                first[key] = document.line
    for (path, name), count in counts.items():
        owner = name if name in dataset.known_definitions else None
        message = f"{what} in {count} of {count_text(totals[path, name], 'workload')}"
        yield RuleFault(message, path, first[path, name], owner)


def _has_no_uuid(line: Trace) -> bool:
    return "uuid" not in line.workload.model_fields_set


def _has_empty_axis(line: Trace) -> bool:
    return 0 in line.workload.axes.values()


def _has_bare_input(line: Trace) -> bool:
    return any("type" not in source.model_fields_set for source in line.workload.inputs.values())


def _kind_of(value: float | bool) -> str:
    match value:
        case bool():
            return "a bool"
        case int():
            return "an int"
        case _:
            return "a float"


def _kinds_for(dtype: str) -> tuple[str, ...]:
    if dtype == "bool":
        return ("a bool",)
    return ("a float", "an int") if "float" in dtype else ("an int",)


@rule("WKL-33", Level.INFO, "add one of another length: a solution for one size passes as well")
def variable_axes_vary(dataset: Snapshot) -> Iterator[RuleFault]:
    """Workloads of a definition with variable axes differ in them."""
    for name, documents in dataset.workloads_by_definition.items():
        axes = dataset.definitions[name].axes if name in dataset.definitions else {}
        free = [axis for axis, spec in axes.items() if spec.type == "var"]
        lengths = {
            tuple(document.entity.workload.axes.get(axis) for axis in free)
            for document in documents
            if document.entity is not None
        }
        if free and len(lengths) == 1:
            message = f"all workloads have the same {listed(free)}"
            yield RuleFault(message, documents[0].path, None, name)
