"""Notices when a solution has changed the harness that runs it.

The check lives in the same process as the solution, so it stops only what is written in Python and does not know of
it. What gets past it is left to the judge's clock and to the processor time the judge reads from outside.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import hashlib
import operator
import random
import sys
import time
import tracemalloc
import types
from _ctypes import CFuncPtr
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MODULES = (
    "flashinfer_bench.bench.channel",
    "flashinfer_bench.bench.protocol",
    "flashinfer_bench.bench.timing.clocks",
    "flashinfer_bench.bench.timing.cupti",
    "flashinfer_bench.bench.timing.device_work",
    "flashinfer_bench.bench.timing.hold",
    "flashinfer_bench.bench.timing.wall",
    "flashinfer_bench.bench.candidate.graphs",
    "flashinfer_bench.bench.candidate.harness",
    "flashinfer_bench.tensors.aliasing",
    "flashinfer_bench.tensors.devices",
    "flashinfer_bench.tensors.input_generation",
    "flashinfer_bench.tensors.dtypes",
    "flashinfer_bench.tensors.generate",
    "flashinfer_bench.tensors.late_inputs",
    "flashinfer_bench.tensors.outputs",
    "flashinfer_bench.tensors.planned",
    "flashinfer_bench.tensors.generate",
)
"""What runs between a request and its answer."""

_BORROWED: tuple[tuple[object, tuple[str, ...]], ...] = (
    (time, ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns")),
    (builtins, ("enumerate", "isinstance", "len", "list", "range", "sum", "type", "zip")),
    (contextlib._GeneratorContextManager, ("__init__", "__enter__", "__exit__", "_recreate_cm")),
    (gc, ("disable", "enable")),
    (hashlib, ("blake2b",)),
    (random.Random, ("choice", "randint", "random", "randrange", "seed", "uniform")),
    (random, ("Random",)),
    (
        torch,
        (
            *("Generator", "Tensor", "add", "allclose", "arange", "cat", "default_generator"),
            *("empty", "empty_like", "equal", "frombuffer", "full", "iinfo", "mul", "randint"),
            *("randperm", "softmax", "zeros", "_foreach_copy_"),
        ),
    ),
    (torch.cuda, ("Event", "default_generators", "synchronize", "_sleep")),
    (torch.cuda.Event, ("elapsed_time", "query", "record")),
    (torch.cuda.CUDAGraph, ("replay",)),
    (torch._C, ("DisableTorchFunction",)),
    (DeviceContext, ("__enter__", "__exit__", "__torch_function__")),
    (
        torch.Tensor,
        (
            *(
                "__add__",
                "__getitem__",
                "__iadd__",
                "__ixor__",
                "__mul__",
                "__setitem__",
                "__iter__",
            ),
            *("add", "add_", "any", "argsort", "as_strided", "clamp", "clamp_", "clone"),
            *("contiguous", "copy_", "cumsum", "data_ptr", "detach", "diff", "dim", "div_"),
            *("element_size", "fill_", "is_contiguous", "is_floating_point", "item", "itemsize"),
            *("minimum", "mul", "mul_", "narrow", "new_full", "new_zeros", "normal_", "numel"),
            *("numpy", "repeat", "reshape", "round_", "softmax", "stride", "sub_", "sum", "to"),
            *("unbind", "uniform_", "unsqueeze", "untyped_storage", "view", "zero_"),
            *("device", "dtype", "nbytes", "requires_grad", "shape"),
            *("__class__", "__dict__", "__torch_function__"),
        ),
    ),
)
"""What the harness borrows from elsewhere."""

_OPERATIONS = tuple(
    f"aten::{name}"
    for name in (
        *("_foreach_copy_", "_local_scalar_dense", "_softmax.out", "_to_copy", "add.Tensor", "add.out", "add_.Tensor"),
        *("arange", "as_strided", "randint.generator", "select.int"),
        *("any", "clamp_", "clone", "copy_", "detach", "div_.Tensor", "empty.memory_format", "empty_like", "eq.Scalar"),
        *("fill_.Scalar", "ge.Scalar", "gt.Scalar", "index_select.out", "lt.Scalar", "mul.Tensor", "mul.out"),
        *("mul_.Tensor", "ne.Scalar", "round_", "set_.source_Storage", "slice.Tensor", "sub_.Tensor", "view"),
        *("view.dtype", "where.self_out", "zero_"),
    )
)  # fmt: skip
"""What inputs are made and outputs are handed over with."""
_OF_CONTENT = frozenset(
    f"aten::{name}"
    for name in ("_foreach_copy_", "add.out", "copy_", "index_select.out", "mul.out", "where.self_out")
)  # fmt: skip
"""Those of them that go over all content, behind which a kernel's work could hide."""
_NOT_DISPATCHED = (
    "Meta",
    "PrivateUse",
    "Quantized",
    "Sparse",
    "Mkldnn",
    "Nested",
    "XLA",
    "XPU",
    "HPU",
    "MPS",
    "Lazy",
)
"""Keys of other tensors than plain ones of a CPU or of CUDA: somebody's own device or layout is their business."""

_TOOLS = 6
"""So many may monitor the interpreter."""

Place = tuple[object, str, object]
Names = Mapping[str, object]

_is = operator.is_


class IntegrityCheck:
    """What the harness looked like before any code of a solution ran."""

    def __init__(self) -> None:
        modules = [sys.modules[name] for name in _MODULES if name in sys.modules]
        places = [*_contents(modules), *_borrowed()]
        self._places = tuple((vars(owner), name, value) for owner, name, value in places)
        functions = [value for _, _, value in places if isinstance(value, types.FunctionType)]
        self._codes = tuple((function, function.__code__) for function in functions)
        self._namespaces = tuple(_by_namespace(places))
        self._operations = tuple((name, _kernels_of(name)) for name in _OPERATIONS)
        self._found: str | None = None
        self._objects: tuple[tuple[dict[str, object], frozenset[str]], ...] = ()
        self._classes: tuple[tuple[object, type], ...] = ()
        self._fixed: tuple[tuple[dict[str, object], str, object], ...] = ()
        self._fields: tuple[tuple[object, str, object], ...] = ()
        self._writers: tuple[object, ...] = ()
        self._foreign: tuple[tuple[CFuncPtr, tuple[object, ...]], ...] = ()

    def include(self, objects: Iterable[object], *, plans: Iterable[object] = ()) -> None:
        """Include instances: an attribute of theirs may not hide a method of their class.

        What a class lists as `FIXED_ATTRIBUTES` may not change either, nor a field of a plan.
        """
        self._fields = tuple(
            (plan, name, getattr(plan, name)) for plan in plans for name in _fields(plan)
        )
        watched = [each for each in objects if hasattr(each, "__dict__")]
        self._objects = tuple((vars(each), frozenset(_methods(type(each)))) for each in watched)
        self._classes = tuple((each, type(each)) for each in watched)
        self._fixed = tuple(
            (vars(each), name, vars(each)[name])
            for each in watched
            for name in getattr(type(each), "FIXED_ATTRIBUTES", ())
        )
        foreign = (value for _, _, value in self._fixed if isinstance(value, CFuncPtr))
        self._foreign = tuple((each, _conversions(each)) for each in foreign)

    def leave(self, writers: Sequence[object]) -> None:
        """Remember what writes inputs, before the solution's next call."""
        self._writers = tuple(writers)

    def find(self, writers: Sequence[object]) -> None:
        """Notice whether what writes inputs is what was left."""
        if len(writers) != len(self._writers) or not all(map(_is, writers, self._writers)):
            self._found = self._found or "what writes inputs was replaced"

    def look_for_modes(self) -> None:
        """Notice a mode that sees what is called now; it may be gone when `damage` is asked for."""
        self._found = self._found or _mode_left_on()

    def damage(self, *, is_deep: bool = False) -> str | None:
        """Name the first thing that is not as it was, or was not before; `is_deep` takes a millisecond longer.

        Operations that go over all content are looked at in any case: the others matter less, and a solution knows
        about when it is looked at deeply.
        """
        self._found = (
            self._found
            or self._replaced()
            or self._hidden()
            or _mode_left_on()
            or _hook_left_on()
            or self._overridden(is_deep=is_deep)
        )
        return self._found

    def _overridden(self, *, is_deep: bool) -> str | None:
        """Look at the operations of torch that the harness needs: a library may override them."""
        for name, kernels in self._operations:
            if (is_deep or name in _OF_CONTENT) and _kernels_of(name) != kernels:
                return f"the operation {name} was overridden"
        return None

    def _replaced(self) -> str | None:
        """Look at whole namespaces at a time, and by name only where something is found."""
        if not all(
            all(map(_is, map(n.get, names), values)) for n, names, values in self._namespaces
        ):
            for names, name, value in self._places:
                if names.get(name) is not value:
                    owner = names.get("__module__", names.get("__name__", "?"))
                    return f"{owner}.{name} was replaced"
        for function, code in self._codes:
            if function.__code__ is not code:
                return f"the code of {function.__qualname__} was replaced"
        return None

    def _hidden(self) -> str | None:
        for each, cls in self._classes:
            if type(each) is not cls:
                return f"an object of the harness became a {type(each).__name__}"
        for attributes, methods in self._objects:
            hidden = methods.intersection(attributes)
            if hidden:
                return f"an attribute {min(hidden)!r} hides a method of the harness"
        for attributes, name, value in self._fixed:
            if attributes.get(name) is not value:
                return f"an attribute {name!r} of the harness was replaced"
        for function, conversions in self._foreign:
            if _conversions(function) != conversions:
                return "how a function of NVIDIA's driver is called was changed"
        for plan, name, value in self._fields:
            if getattr(plan, name) is not value:
                return f"{name!r} of a plan was replaced"
        return None


def _mode_left_on() -> str | None:
    """Name a mode that sees calls on tensors; one for torch's own default device is none of its business."""
    stacks: Iterable[Any] = (_get_current_function_mode_stack, _get_current_dispatch_mode_stack)
    modes = (mode for stack in stacks for mode in stack())
    strange = (type(mode).__name__ for mode in modes if type(mode) is not DeviceContext)
    return next((f"{name} was left on" for name in strange), None)


def _hook_left_on() -> str | None:
    """Name a hook of the interpreter that runs inside of the harness."""
    hooks = {
        "profile": sys.getprofile(),
        "trace": sys.gettrace(),
        "monitoring": _monitored(),
        "tracemalloc": tracemalloc.is_tracing(),
    }
    return next((f"a {name} hook was left on" for name, hook in hooks.items() if hook), None)


def _monitored() -> bool:
    """Tell whether a tool hears of events of the interpreter (from Python 3.12 on)."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return False
    tools = (each for each in range(_TOOLS) if monitoring.get_tool(each) is not None)
    return any(monitoring.get_events(each) for each in tools)


def _conversions(function: CFuncPtr) -> tuple[object, ...]:
    """Give what turns arguments and results of a foreign function into others."""
    return function.argtypes, function.restype, getattr(function, "errcheck", None)


def _kernels_of(operation: str) -> str:
    """Name what calls of an operation are dispatched to, whatever bits a tensor carries and modes a thread is in."""
    try:
        lines = str(torch._C._dispatch_dump(operation)).splitlines()
    except RuntimeError:  # not in this version of torch
        return ""
    return "\n".join(line for line in lines if not line.startswith(_NOT_DISPATCHED))


def _fields(plan: object) -> Iterable[str]:
    return getattr(plan, "__struct_fields__", ())


def _contents(modules: Iterable[types.ModuleType]) -> Iterator[Place]:
    for module in modules:
        for name, value in vars(module).items():
            if name.startswith("__"):
                continue
            yield module, name, value
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield from (
                    (value, key, entry) for key, entry in vars(value).items() if _counts(entry)
                )


def _counts(entry: object) -> bool:
    return isinstance(entry, types.FunctionType | property | staticmethod | classmethod)


def _borrowed() -> Iterator[Place]:
    for owner, names in _BORROWED:
        yield from ((owner, name, vars(owner).get(name)) for name in names)


def _by_namespace(
    places: Iterable[Place],
) -> Iterator[tuple[Names, tuple[str, ...], tuple[object, ...]]]:
    groups: dict[int, tuple[object, dict[str, object]]] = {}
    for owner, name, value in places:
        groups.setdefault(id(owner), (owner, {}))[1][name] = value
    for owner, found in groups.values():
        yield vars(owner), tuple(found), tuple(found.values())


def _methods(cls: type) -> Iterator[str]:
    for base in cls.__mro__[:-1]:
        yield from (name for name, entry in vars(base).items() if _counts(entry))
