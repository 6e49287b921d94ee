"""Calls in code that `torch.compile` compiles: operators of `torch.library`, which the compiler keeps as they are.

An operator takes the tensors of a call; what else the call was given is kept under the name of its *site*. When the
operator runs, it makes the call as it would be made uncompiled, so that handlers see it, at its sizes of that moment.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import threading
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from flashinfer_bench.intercept.import_hooks import ImportHooks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.data import Definition

_NAMESPACE = "flashinfer_bench"
_PURE = "call(str site, Tensor[] read) -> Tensor[]"
_WRITING = "write(str site, Tensor[] read, Tensor(a!)[] written) -> ()"


@dataclass
class Site:
    """One form of a call: everything but its tensors."""

    name: str
    call: Callable[..., Any]
    """Makes the call; takes all tensors in order."""
    made_for: Callable[..., Any]
    """What `call` calls: the same name for another function is another site."""
    fake: Callable[..., Any]
    """Gives tensors like the call's answer, without computing."""
    is_single: bool = True
    """Whether the answer is one tensor and no tuple."""


@dataclass
class Sites:
    """The sites of this process, by name; a name says what a site does, so that compiled code may be cached."""

    known: dict[str, Site] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def add(self, target: str, constants: object, site: Site) -> Site:
        """Find a site like this one, or take it in under a name of its own."""
        digest = hashlib.sha256(repr(constants).encode()).hexdigest()[:12]
        with self.lock:
            for number in itertools.count():
                site.name = f"{target}/{digest}" + (f"/{number}" if number else "")
                known = self.known.setdefault(site.name, site)
                if known.made_for is site.made_for:
                    return known
        raise AssertionError  # the count has no end


SITES = Sites()


@cache
def _library() -> Any:
    """Register the two operators; kept alive, for they go with it."""
    import torch  # noqa: PLC0415 - only compiled code comes here

    library: Any = torch.library.Library(_NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema, run, fake in ((_PURE, _run, _fake), (_WRITING, _write, _write_nothing)):
        name = schema.partition("(")[0]
        library.define(schema, tags=torch.Tag.pt2_compliant_tag)
        library.impl(name, run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{_NAMESPACE}::{name}", fake, lib=library)
    return library


def _run(site: str, read: Sequence[Any]) -> list[Any]:
    import torch  # noqa: PLC0415

    with torch.no_grad():
        answer = SITES.known[site].call(*read)
    outputs = answer if isinstance(answer, tuple | list) else (answer,)
    taken = {each.untyped_storage().data_ptr() for each in read}
    return [
        each.clone() if each.untyped_storage().data_ptr() in taken else each for each in outputs
    ]


def _fake(site: str, read: Sequence[Any]) -> list[Any]:
    known = SITES.known[site]
    answer = known.fake(*read)
    known.is_single = not isinstance(answer, tuple | list)
    return [answer] if known.is_single else list(answer)


def _write(site: str, read: Sequence[Any], written: Sequence[Any]) -> None:
    import torch  # noqa: PLC0415

    with torch.no_grad():
        SITES.known[site].call(*read, *written)


def _write_nothing(site: str, read: Sequence[Any], written: Sequence[Any]) -> None:
    del site, read, written


def as_operator(
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    call: Callable[..., Any],
    fake: Callable[..., Any],
    written: tuple[Any, ...] = (),
) -> Any:
    """Put a call into the graph that is being made; gives its answer, None for one that writes.

    Tensors may lie in tuples, lists and dictionaries; `written` says which of them the call writes into.
    """
    import torch  # noqa: PLC0415
    from torch.utils import _pytree as pytree  # noqa: PLC0415

    _library()
    values, form = pytree.tree_flatten((args, kwargs))
    tensors = [at for at, value in enumerate(values) if isinstance(value, torch.Tensor)]
    writes = [at for at in tensors if any(values[at] is each for each in written)]
    order = [at for at in tensors if at not in writes] + writes
    constants = [None if at in tensors else _constant(each) for at, each in enumerate(values)]

    def rebuilt(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            filled = list(constants)
            for at, each in zip(order, given, strict=True):
                filled[at] = each
            own_args, own_kwargs = pytree.tree_unflatten(filled, form)
            return function(*own_args, **own_kwargs)

        return called

    site = SITES.add(target, (form, order, constants), Site("", rebuilt(call), call, rebuilt(fake)))
    operators = getattr(torch.ops, _NAMESPACE)
    given = [values[at] for at in order]
    if writes:
        split = len(given) - len(writes)
        operators.write(site.name, given[:split], given[split:])
        return None
    outputs = operators.call(site.name, given)
    return outputs[0] if site.is_single else tuple(outputs)


def _constant(value: Any) -> Any:
    """Take a number that the compiler would let vary as it is: another one is compiled anew."""
    import torch  # noqa: PLC0415

    if isinstance(value, torch.SymInt):
        return int(value)
    return float(value) if isinstance(value, torch.SymFloat) else value


def outputs_like(definition: Definition) -> Callable[..., Any]:
    """Make what gives empty outputs of the definition's shapes and dtypes for its inputs, on their device."""
    from flashinfer_bench.tensors.dtypes import torch_dtype  # noqa: PLC0415 - torch

    def fake(*inputs: Any) -> Any:
        import torch  # noqa: PLC0415

        axes = definition.get_axes_values_from_inputs(inputs)
        tensors = (each.device for each in inputs if isinstance(each, torch.Tensor))
        device = next(tensors, torch.device("cpu"))
        made = [
            torch.empty(tuple(shape or ()), dtype=torch_dtype(spec.dtype), device=device)
            for shape, spec in zip(
                definition.get_output_shapes(axes), definition.outputs.values(), strict=True
            )
        ]
        return made[0] if len(made) == 1 else tuple(made)

    return fake


def needs_gradient(values: Sequence[Any]) -> bool:
    """Tell whether a gradient has to flow through a call: then it stays what it is."""
    import torch  # noqa: PLC0415

    return torch.is_grad_enabled() and any(
        isinstance(each, torch.Tensor) and each.requires_grad for each in values
    )


class Marks:
    """Functions that the compiler does not look into; it is told once it is there, for its import takes seconds."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[Any], object]] = []
        self._hooks = ImportHooks()
        self._is_awaited = False

    def as_one_call(self, function: Callable[..., Any]) -> None:
        """Keep a function as one call: it runs, on tensors without content, when code is compiled."""
        self._tell(lambda compiler: compiler.allow_in_graph(function))

    def as_constant(self, function: Callable[..., Any]) -> None:
        """Run a function when code is compiled, and take its answer for a constant."""
        self._tell(lambda compiler: compiler.assume_constant_result(function))

    def await_compiler(self, *, is_wanted: bool) -> None:
        """Hear of the compiler's import from now on, or no more."""
        if is_wanted and _COMPILER in sys.modules:
            self._tell_all()
        elif is_wanted and not self._is_awaited:
            self._hooks.expect(_COMPILER, self._tell_all)
        elif not is_wanted and self._is_awaited:
            self._hooks.forget(_COMPILER, self._tell_all)
        self._is_awaited = is_wanted and _COMPILER not in sys.modules

    def _tell(self, mark: Callable[[Any], object]) -> None:
        self._waiting.append(mark)
        if _COMPILER in sys.modules and not self._is_awaited:
            self._tell_all()

    def _tell_all(self) -> None:
        import torch  # noqa: PLC0415

        self._is_awaited = False
        while self._waiting:
            self._waiting.pop()(torch.compiler)


_COMPILER = "torch._dynamo"


def is_exporting() -> bool:
    """Tell whether a program is exported: it must not hold what only this process knows."""
    import torch  # noqa: PLC0415

    return torch.compiler.is_exporting()
