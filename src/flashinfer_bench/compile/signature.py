"""Whether a callable accepts what it will be called with, asked before it runs."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.data import Signature, Solution

# Annotations that promise nothing about how many values come back.
_ANY_NUMBER = (Any, object, list, tuple, collections.abc.Sequence, inspect.Signature.empty)


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """How a function will be called: which function, with which arguments, and why these."""

    where: str
    arguments: tuple[str, ...]
    why: str
    otherwise: tuple[str, ...] | None = None
    """With what it would be called in the other calling style."""
    other_style: str = ""


def entry_call(solution: Solution, signature: Signature) -> PlannedCall:
    """Say how the entry point is called: inputs, then outputs if it writes into them.

    The state comes first when the solution names `prepare` or `plan`.
    """
    spec = solution.spec
    state = ("state",) if spec.prepare or spec.plan else ()
    if spec.destination_passing_style:
        outputs: tuple[str, ...] = tuple(signature.outputs)
        other: tuple[str, ...]
        why = "it writes into its outputs (destination_passing_style is true)"
        other, style = (), "return its outputs (destination_passing_style = false)"
    else:
        outputs = ()
        why = "it returns its outputs (destination_passing_style is false)"
        other, style = (
            tuple(signature.outputs),
            ("write into its outputs (destination_passing_style = true)"),
        )
    where = f"solution {solution.name!r}: {spec.entry_point}"
    inputs = (*state, *signature.inputs)
    return PlannedCall(where, (*inputs, *outputs), why, (*inputs, *other), style)


def prepare_call(solution: Solution, signature: Signature) -> PlannedCall:
    """Say how `prepare` is called: with the static inputs."""
    return PlannedCall(
        f"solution {solution.name!r}: {solution.spec.prepare}",
        tuple(name for name, spec in signature.inputs.items() if spec.role == "static"),
        "prepare takes the static inputs",
    )


def plan_call(solution: Solution, signature: Signature) -> PlannedCall:
    """Say how `plan` is called: with the state, then the metadata inputs."""
    metadata = (name for name, spec in signature.inputs.items() if spec.role == "metadata")
    return PlannedCall(
        f"solution {solution.name!r}: {solution.spec.plan}",
        ("state", *metadata),
        "plan takes the state and the metadata inputs",
    )


def require_arity(count: int, call: PlannedCall) -> None:
    """Raise unless a compiled function that takes `count` arguments fits."""
    if count != len(call.arguments):
        fits_otherwise = call.otherwise is not None and count == len(call.otherwise)
        raise BuildError(_misfit(call, f"takes {count} arguments", fits_otherwise=fits_otherwise))


def require_fit(function: Callable[..., object], call: PlannedCall) -> None:
    """Raise unless the Python callable accepts exactly the arguments it is called with.

    Extra parameters with defaults are fine; parameter names are not compared. A callable that does
    not tell its signature passes.
    """
    try:
        declared = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        declared.bind(*call.arguments)
    except TypeError as error:
        shape = declared.replace(return_annotation=inspect.Signature.empty)
        fault = f"is declared as {shape}: {error}"
        fits_otherwise = call.otherwise is not None and _binds(declared, call.otherwise)
        raise BuildError(_misfit(call, fault, fits_otherwise=fits_otherwise)) from None


def require_return_count(
    function: Callable[..., object], signature: Signature, call: PlannedCall
) -> None:
    """Raise when a return annotation promises another number of values than there are outputs."""
    declared = _returned_count(_return_annotation(function))
    if declared is not None and declared != len(signature.outputs):
        outputs = ", ".join(signature.outputs)
        raise BuildError(
            f"{call.where} is annotated to return {declared} value(s); {call.why}: ({outputs})"
        )


def _binds(declared: inspect.Signature, arguments: tuple[str, ...]) -> bool:
    try:
        declared.bind(*arguments)
    except TypeError:
        return False
    return True


def _misfit(call: PlannedCall, fault: str, *, fits_otherwise: bool) -> str:
    said = f"{call.where} {fault}; {call.why}, so it is called with ({', '.join(call.arguments)})"
    if call.otherwise is None:
        return said
    if fits_otherwise:
        return f"{said}; it would fit if it were to {call.other_style}"
    return f"{said}; to {call.other_style} it would take ({', '.join(call.otherwise)})"


def _return_annotation(function: Callable[..., object]) -> object:
    try:
        return inspect.signature(function, eval_str=True).return_annotation
    except Exception:  # noqa: BLE001 - evaluating an annotation runs the solution's code
        return Any


def _returned_count(annotation: object) -> int | None:
    """Count the values an annotation promises; None when it does not say."""
    if annotation is None or annotation is types.NoneType:
        return 0
    origin = typing.get_origin(annotation)
    members = typing.get_args(annotation)
    if origin is tuple:
        return None if Ellipsis in members else len([m for m in members if m != ()])
    if annotation in _ANY_NUMBER or origin in _ANY_NUMBER:
        return None
    return 1
