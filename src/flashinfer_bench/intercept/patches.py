"""Attributes of other people's modules and classes, replaced while somebody wants it and put back exactly."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from flashinfer_bench.intercept.call import Call, Unplaced
from flashinfer_bench.intercept.chain import CHAIN, Chain
from flashinfer_bench.intercept.compiled import as_operator, is_exporting, needs_gradient
from flashinfer_bench.intercept.import_hooks import ImportHooks

_LOG = logging.getLogger("flashinfer_bench.intercept")
_ABSENT = object()
_NOT_LOOKED_INTO = ("torch", "flashinfer_bench")
"""Packages whose modules keep the names they imported: their own plumbing is not to be intercepted."""

Read = Callable[..., Call | Sequence[Call] | Unplaced | None]
"""Takes the target's own arguments; `Unplaced` or None: this call is the original's, whatever is in the chain."""


class Written(NamedTuple):
    """What a call writes into, and gives back."""

    tensors: tuple[Any, ...]
    answer: Any


@dataclass(frozen=True)
class Adapter:
    """Reads the calls of one function or method of a library as calls of definitions."""

    target: str
    """`<module>:<function>` or `<module>:<Class>.<method>`."""
    read: Read
    op_types: frozenset[str] = frozenset()
    """Op types of definitions that its calls can be; empty: any."""
    observe: Callable[..., Callable[[], None] | None] | None = None
    """Sees the arguments of every call before it is made, for the `plan` of a wrapper that plans and runs.

    What it gives is called when the call has returned. Such calls are not sent through the chain.
    """
    forget: Callable[[], None] | None = None
    """Called when the patch is removed: from then on nothing is observed, and what was may be out of date."""
    written: Callable[..., Written | None] | None = None
    """Says what a call with these arguments writes into, for compiled code; None: it never writes."""
    fake: Callable[..., Any] | None = None
    """Gives tensors like a call's answer, where the compiler cannot look into the original: then it never does."""
    handle: Callable[[Any], int | None] | None = None
    """For a method: gives a number that its object is found by, which compiled code holds in its place."""
    held: Callable[[int], Any] | None = None
    """Finds the object again."""

    @property
    def module(self) -> str:
        """The module that must be imported for there to be anything to patch."""
        return self.target.partition(":")[0]


@dataclass(frozen=True)
class Patch:
    """One attribute that is replaced, and what was there."""

    owner: Any
    name: str
    original: Any
    before: Any
    """The owner's own entry, which differs from `original` for what is inherited."""

    def restore(self, wrapper: Any) -> None:
        """Put back what was there, unless somebody else put something over it since."""
        if getattr(self.owner, self.name, None) is not wrapper:
            _LOG.warning("%s was patched by somebody else since; it stays as it is", self)
        elif self.before is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.before)

    def __str__(self) -> str:
        return f"{getattr(self.owner, '__qualname__', self.owner.__name__)}.{self.name}"


@dataclass
class _Installed:
    wrapper: Any = None
    patches: list[Patch] = field(default_factory=list)
    holders: int = 1
    arrived: Callable[[], None] | None = None


@dataclass
class Patches:
    """Every adapter somebody holds; each is installed once and stays while anybody holds it."""

    chain: Chain = CHAIN
    in_force: dict[Adapter, _Installed] = field(default_factory=dict)
    """Empty while nobody holds an adapter; changed in place, so that whoever asks often may keep it."""
    _import_hooks: ImportHooks = field(default_factory=ImportHooks)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def install(self, adapters: Iterable[Adapter]) -> list[Adapter]:
        """Patch what the adapters name, a module that is not imported yet as soon as it is.

        Gives what must be removed again.
        """
        held = list(adapters)
        with self._lock:
            for adapter in held:
                self._install(adapter)
        return held

    def remove(self, adapters: Iterable[Adapter]) -> None:
        """Let go of adapters; what nobody holds any more is as it was before."""
        with self._lock:
            for adapter in adapters:
                installed = self.in_force[adapter]
                installed.holders -= 1
                if not installed.holders:
                    del self.in_force[adapter]
                    self._uninstall(adapter, installed)

    def installed(self) -> list[str]:
        """Name the targets that are patched now."""
        return [each.target for each, installed in self.in_force.items() if installed.patches]

    def _install(self, adapter: Adapter) -> None:
        if adapter in self.in_force:
            self.in_force[adapter].holders += 1
            return
        installed = self.in_force[adapter] = _Installed()
        if adapter.module in sys.modules:
            self._patch(adapter)
        else:
            installed.arrived = functools.partial(self._patch, adapter)
            self._import_hooks.expect(adapter.module, installed.arrived)

    def _uninstall(self, adapter: Adapter, installed: _Installed) -> None:
        if installed.arrived is not None:
            self._import_hooks.forget(adapter.module, installed.arrived)
        for patch in reversed(installed.patches):
            patch.restore(installed.wrapper)
        if adapter.forget is not None:
            adapter.forget()

    def _patch(self, adapter: Adapter) -> None:
        found = find_target(adapter.target)
        if found is None:  # another version of the library: its calls are left alone
            return
        owner, name = found
        original = getattr(owner, name)
        installed = self.in_force[adapter]
        installed.wrapper = intercepting(original, adapter, self.chain)
        owners = list(_owners(owner, name, original))
        installed.patches += [_patched(each, name, installed.wrapper) for each in owners]


def find_target(target: str) -> tuple[Any, str] | None:
    """Find the object that holds a target, and its name there; None where the module has no such thing."""
    module_name, _, path = target.partition(":")
    owner: Any = sys.modules[module_name]
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent, None)
    return (owner, name) if hasattr(owner, name) else None


def intercepting(
    original: Callable[..., Any], adapter: Adapter, chain: Chain
) -> Callable[..., Any]:
    """Make what stands in a target's place: it sends what the adapter can read through the chain."""
    active, inside, read, observe = chain.active, chain.inside, adapter.read, adapter.observe
    is_compiling = _compiling()
    is_silenced = threading.Event()

    def readings(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Call] | Unplaced:
        try:
            found = read(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever an adapter cannot read is the library's affair
            if not is_silenced.is_set():
                is_silenced.set()
                _LOG.warning("%s: the original answers a call: %s", adapter.target, error)
            return Unplaced(adapter.target, f"its adapter cannot read it: {error}")
        if isinstance(found, Call):
            return (found,)
        return found or Unplaced(adapter.target, "its adapter leaves such a call alone")

    @functools.wraps(original)
    def observed(*args: Any, **kwargs: Any) -> Any:
        assert observe is not None
        returned = observe(*args, **kwargs)
        answer = original(*args, **kwargs)
        if returned is not None:
            returned()
        return answer

    @functools.wraps(original)
    def intercepted(*args: Any, **kwargs: Any) -> Any:
        if not active:
            return original(*args, **kwargs)
        if is_compiling():
            return compiled(*args, **kwargs)
        if inside.solution:
            return original(*args, **kwargs)
        return chain.send(readings(args, kwargs), functools.partial(original, *args, **kwargs))

    compiled = _in_compiled_code(original, adapter, chain, readings, intercepted)
    return intercepted if observe is None else observed


def _in_compiled_code(
    original: Callable[..., Any],
    adapter: Adapter,
    chain: Chain,
    readings: Callable[..., Sequence[Call] | Unplaced],
    intercepted: Callable[..., Any],
) -> Callable[..., Any]:
    """Make what the compiler sees of a target: a function as one call, a method as its original."""

    def in_graph(*args: Any, **kwargs: Any) -> Any:
        """Decide with the compiler's tensors, which have shapes and no content; runs as it is, uncompiled."""
        if chain.inside.solution or is_exporting():
            return original(*args, **kwargs)
        if needs_gradient([*args, *kwargs.values()]):
            chain.leave_compiled(Unplaced(adapter.target, "compiled, and a gradient is needed"))
            return original(*args, **kwargs)
        if adapter.fake is None and not chain.places_compiled(readings(args, kwargs)):
            return original(*args, **kwargs)
        return _operator_of(adapter, intercepted, adapter.fake or original, args, kwargs)

    if "." not in adapter.target.partition(":")[2]:
        chain.marks.as_one_call(in_graph)
        return in_graph
    return _method_in_compiled_code(original, adapter, chain, intercepted)


def _method_in_compiled_code(
    original: Callable[..., Any],
    adapter: Adapter,
    chain: Chain,
    intercepted: Callable[..., Any],
) -> Callable[..., Any]:
    """Make what the compiler sees of a method: a call by its object's number, else its original, which is named."""
    handle, held, fake = adapter.handle, adapter.held, adapter.fake
    left = Unplaced(adapter.target, "compiled: the compiler looks into the method of an object")

    def leave() -> None:
        chain.leave_compiled(left)

    def call(number: int, *args: Any, **kwargs: Any) -> Any:
        assert held is not None
        return intercepted(held(number), *args, **kwargs)

    def in_graph(number: int, *args: Any, **kwargs: Any) -> Any:
        assert fake is not None
        return _operator_of(adapter, call, fake, (number, *args), kwargs)

    def compiled(instance: Any, *args: Any, **kwargs: Any) -> Any:
        number = None if handle is None else handle(instance)
        if number is not None:
            return in_graph(number, *args, **kwargs)
        leave()
        return original(instance, *args, **kwargs)

    chain.marks.as_constant(leave)
    chain.marks.as_one_call(in_graph)
    return compiled


def _operator_of(
    adapter: Adapter,
    call: Callable[..., Any],
    fake: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    written = adapter.written and adapter.written(*args, **kwargs)
    tensors = written.tensors if written else ()
    answer = as_operator(adapter.target, args, kwargs, call=call, fake=fake, written=tensors)
    return written.answer if written else answer


def _compiling() -> Callable[[], bool]:
    """Ask torch, where it is loaded, whether it is compiling."""
    torch = sys.modules.get("torch")
    return (lambda: False) if torch is None else torch.compiler.is_compiling


def _owners(owner: Any, name: str, original: Any) -> Iterator[Any]:
    """Give what holds the target: its own place, and for a function the modules that imported it under its name."""
    yield owner
    if not isinstance(owner, ModuleType):
        return
    for module in list(sys.modules.values()):
        package = getattr(module, "__name__", "").partition(".")[0]
        if module is owner or package in _NOT_LOOKED_INTO or not isinstance(module, ModuleType):
            continue
        if vars(module).get(name) is original:
            yield module


def _patched(owner: Any, name: str, wrapper: Any) -> Patch:
    patch = Patch(owner, name, getattr(owner, name), vars(owner).get(name, _ABSENT))
    takes_no_instance = isinstance(inspect.getattr_static(owner, name), staticmethod | classmethod)
    setattr(owner, name, staticmethod(wrapper) if takes_no_instance else wrapper)
    return patch


PATCHES = Patches()
"""The patches of this process."""
