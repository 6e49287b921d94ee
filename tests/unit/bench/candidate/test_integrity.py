"""What the harness notices of changes to itself."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import TorchDispatchMode

from flashinfer_bench.bench.candidate import harness
from flashinfer_bench.bench.candidate.integrity import _OPERATIONS, IntegrityCheck
from flashinfer_bench.bench.protocol import OpenTrial, Prepare, RunPhase
from flashinfer_bench.bench.timing import wall
from flashinfer_bench.data.distributions import Probabilities
from flashinfer_bench.tensors import outputs
from flashinfer_bench.tensors.fixed_memory import fixed_memory
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.planned import InputPlan, TensorPlan


class LeftOn(TorchFunctionMode):
    pass


def replaced() -> int:
    return 0


class Clock(wall.WallClock):
    FIXED_ATTRIBUTES = ("_evict",)


def test_an_untouched_harness_is_whole() -> None:
    assert IntegrityCheck().damage() is None


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (time, "perf_counter_ns"),
        (gc, "disable"),
        (wall, "_now_ns"),
        (wall.WallClock, "time_ns"),
        (outputs.SharedOutputs, "write"),
        (harness._Harness, "prepare"),
        (torch, "empty"),
        (torch.Tensor, "requires_grad"),
        (torch.cuda, "synchronize"),
    ],
)
def test_a_replaced_name_is_told(owner: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    integrity = IntegrityCheck()

    monkeypatch.setattr(owner, name, replaced)

    assert f".{name} was replaced" in (integrity.damage() or "")


@pytest.mark.parametrize(
    ("name", "key", "is_deep"),
    [
        ("mul.out", "CPU", False),
        ("mul.out", "AutocastCPU", False),
        ("_foreach_copy_", "Negative", False),
        ("copy_", "ZeroTensor", False),
        ("where.self_out", "FuncTorchBatched", False),
        ("fill_.Scalar", "Negative", True),
    ],
)
def test_an_overridden_operation_is_told_whatever_leads_to_it(
    name: str, key: str, *, is_deep: bool
) -> None:
    integrity = IntegrityCheck()
    library = torch.library.Library("aten", "IMPL")

    library.impl(name, replaced, key, allow_override=True)
    found = integrity.damage(is_deep=is_deep)
    library._destroy()

    assert f"aten::{name} was overridden" in (found or "")


@pytest.mark.parametrize("key", ["PrivateUse1", "SparseCPU"])
def test_an_operation_of_somebodys_own_device_or_layout_is_no_damage(key: str) -> None:
    integrity = IntegrityCheck()
    library = torch.library.Library("aten", "IMPL")

    library.impl("mul.Tensor", replaced, key, allow_override=True)
    found = integrity.damage(is_deep=True)
    library._destroy()

    assert found is None


def test_what_a_copy_would_have_to_do_is_done_by_the_call() -> None:
    negative, turned = torch._neg_view(torch.ones(2, 3)), torch.ones(3, 2).t()

    assert [harness._is_for_later([[each]]) for each in (negative, turned, torch.ones(2))] == [
        True,
        True,
        False,
    ]
    assert not harness._contiguous(negative).is_neg()
    assert torch.equal(harness._contiguous(negative), negative)


def test_a_mode_that_is_gone_later_was_there() -> None:
    integrity = IntegrityCheck()

    with LeftOn():
        integrity.look_for_modes()

    assert "LeftOn was left on" in (integrity.damage() or "")


def test_no_collector_runs_where_inputs_are_made() -> None:
    seen: list[bool] = []
    fake: Any = SimpleNamespace(
        prepare=lambda _: seen.append(gc.isenabled()),
        open_trial=lambda _: seen.append(gc.isenabled()),
        run_phase=lambda _: seen.append(gc.isenabled()),
    )

    for request in (Prepare(1, 2, 3), OpenTrial(2, 3), RunPhase(3, "prepare")):
        harness._get_ready(fake, request)

    assert seen == [False, False, True]
    assert gc.isenabled()


class _Recorded(TorchDispatchMode):
    """Which operations are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func).removesuffix(".default").replace(".", "::", 1))
        return func(*args, **(kwargs or {}))


def test_operations_that_inputs_and_outputs_need_are_looked_at() -> None:
    plans = [
        InputPlan(TensorPlan("x", shape, dtype), "window", distribution=distribution)
        for dtype in ("float32", "float16", "float8_e4m3fn", "int64", "int8", "bool")
        for shape in ((3, 70), (300, 70))
        for distribution in (None, Probabilities() if dtype == "float32" else None)
    ]
    made = InputMaker(plans, torch.device("cpu"))
    made.open_trial(1)
    planned = [TensorPlan("y", (30, 70), "float32")]
    shared = outputs.SharedOutputs(fixed_memory("outputs", 1 << 20), planned, 2)
    buffers = outputs.allocate(planned, torch.device("cpu"))
    made.prepare(2, 2)

    with _Recorded() as recorded:
        made.prepare(3, 2)
        outputs.poison(buffers)
        shared.write([buffers])

    assert len(recorded.names) > 10
    assert recorded.names <= set(_OPERATIONS)


def test_what_torch_compile_registers_is_no_damage() -> None:
    integrity = IntegrityCheck()

    torch.compile(lambda x: x * 2, backend="eager")(torch.ones(3))
    torch.func.vmap(torch.sin)(torch.ones(2, 2))

    assert integrity.damage(is_deep=True) is None


def test_an_object_that_changed_its_class_is_told() -> None:
    integrity, clock = IntegrityCheck(), wall.WallClock()
    integrity.include([clock])

    clock.__class__ = Clock

    assert "became a Clock" in (integrity.damage() or "")


def test_damage_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    integrity = IntegrityCheck()
    with monkeypatch.context() as patching:
        patching.setattr(wall, "_now_ns", replaced)
        assert integrity.damage() is not None

    assert integrity.damage() is not None


def test_a_field_of_a_plan_is_told() -> None:
    plan = TensorPlan("y", (2, 3), "float32")
    integrity = IntegrityCheck()
    integrity.include([], plans=[plan])

    msgspec.structs.force_setattr(plan, "shape", (3, 2))

    assert "'shape' of a plan" in (integrity.damage() or "")


def test_replaced_code_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    integrity = IntegrityCheck()

    monkeypatch.setattr(wall.overhead_ns, "__code__", replaced.__code__)

    assert integrity.damage() == "the code of overhead_ns was replaced"


def test_an_attribute_that_hides_a_method_is_told() -> None:
    integrity, clock = IntegrityCheck(), Clock()
    integrity.include([clock])
    assert integrity.damage() is None

    hiding: Callable[..., object] = replaced
    clock.time_ns = hiding  # type: ignore[assignment,method-assign]

    assert integrity.damage() == "an attribute 'time_ns' hides a method of the harness"


def test_a_fixed_attribute_that_changes_is_told() -> None:
    integrity, clock = IntegrityCheck(), Clock()
    integrity.include([clock])

    clock._evict = replaced

    assert integrity.damage() == "an attribute '_evict' of the harness was replaced"


@pytest.mark.parametrize(("switch", "told"), [(sys.setprofile, "profile"), (sys.settrace, "trace")])
def test_a_hook_of_the_interpreter_that_was_left_on_is_told(
    switch: Callable[[object], None], told: str
) -> None:
    integrity, before = IntegrityCheck(), {"profile": sys.getprofile(), "trace": sys.gettrace()}
    switch(lambda *_: None)
    try:
        damage = integrity.damage()
    finally:
        switch(before[told])

    assert damage == f"a {told} hook was left on"


def test_a_mode_that_was_left_on_is_told_and_a_default_device_is_not() -> None:
    integrity = IntegrityCheck()

    with torch.device("cpu"):
        assert integrity.damage() is None
    with LeftOn():
        assert integrity.damage() == "LeftOn was left on"


def test_a_subclass_of_the_default_device_is_none() -> None:
    class Default(DeviceContext):
        pass

    integrity = IntegrityCheck()
    with Default("cpu"):
        integrity.look_for_modes()

    assert integrity.damage() == "Default was left on"


def test_traced_memory_is_told() -> None:
    integrity = IntegrityCheck()
    tracemalloc.start()
    try:
        assert integrity.damage() == "a tracemalloc hook was left on"
    finally:
        tracemalloc.stop()


class Launching(wall.WallClock):
    FIXED_ATTRIBUTES = ("_launch",)

    def __init__(self) -> None:
        super().__init__()
        self._launch = ctypes.CDLL(None).getpid


@pytest.mark.parametrize("name", ["argtypes", "restype", "errcheck"])
def test_conversions_of_a_foreign_function_are_told(name: str) -> None:
    clock, integrity = Launching(), IntegrityCheck()
    integrity.include([clock])
    assert integrity.damage() is None

    changed = {
        "argtypes": [ctypes.c_int],
        "restype": ctypes.c_longlong,
        "errcheck": lambda *given: given[0],
    }
    setattr(clock._launch, name, changed[name])

    assert "is called was changed" in (integrity.damage() or "")


@pytest.mark.parametrize("found", [[1, 2], [1, 3], [1], [1, 2, 3]])
def test_what_writes_inputs_is_what_was_left(found: list[int]) -> None:
    integrity = IntegrityCheck()
    left = [1, 2]
    integrity.leave(left)

    integrity.find(found)

    told = integrity.damage()
    assert told is None if found == left else told == "what writes inputs was replaced"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has sys.monitoring")
def test_a_tool_that_hears_of_events_is_told() -> None:
    monitoring = sys.monitoring
    integrity = IntegrityCheck()
    monitoring.use_tool_id(3, "test")
    try:
        assert integrity.damage() is None  # it hears of nothing
        monitoring.set_events(3, monitoring.events.PY_START)
        assert integrity.damage() == "a monitoring hook was left on"
    finally:
        monitoring.set_events(3, 0)
        monitoring.free_tool_id(3)
