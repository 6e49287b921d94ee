"""What ran in a call, as CUPTI's activity records and torch's profiler tell it."""

from __future__ import annotations

from typing import Any

import msgspec

from flashinfer_bench.bench.examining.profile_values import ProfiledKernel
from flashinfer_bench.bench.examining.tool_answers import (
    ToolUnavailableError,
    number,
    short_name,
    summed_up,
)
from flashinfer_bench.bench.protocol import PROFILED_RANGE

_ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
_NS_PER_US = 1e3
_AXES = ("x", "y", "z")


class TraceEvent(msgspec.Struct, frozen=True):
    """One event of a trace as Chrome reads it; times are in microseconds."""

    name: Any = ""
    cat: str = ""
    ph: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: Any = None
    args: dict[str, Any] = {}  # msgspec copies it


class _TorchTrace(msgspec.Struct, frozen=True):
    traceEvents: list[TraceEvent]  # noqa: N815  # the format's name


def kernels_of_records(text: bytes) -> tuple[ProfiledKernel, ...]:
    """Read what CUPTI noted of each kernel."""
    return summed_up(_recorded(each) for each in _decoded(text, list[dict[str, Any]]))


def kernels_of_trace(text: bytes) -> tuple[tuple[ProfiledKernel, ...], float | None]:
    """Read torch's trace: kernels of the device, else operations of the CPU; and how long the call took.

    The time of an operation is its own, without the operations that it calls.
    """
    events = [each for each in _decoded(text, _TorchTrace).traceEvents if each.ph == "X"]
    call = next((each for each in events if _is_call(each)), None)
    call_us = None if call is None else call.dur
    on_device = [each for each in events if each.cat in _ON_DEVICE]
    if on_device:
        return summed_up(_on_device(each) for each in on_device), call_us
    operations = [each for each in events if each.cat == "cpu_op"]
    return summed_up(_own_times(operations)), call_us


def _decoded(text: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ToolUnavailableError(f"the profiler's file cannot be read: {error}") from error


def _is_call(event: TraceEvent) -> bool:
    return event.cat == "user_annotation" and event.name == PROFILED_RANGE


def _recorded(record: dict[str, Any]) -> ProfiledKernel:
    began, ended = number(record.get("start")), number(record.get("end"))
    shared = [number(record.get(f"{kind}_shared_memory")) for kind in ("static", "dynamic")]
    return ProfiledKernel(
        name=short_name(str(record.get("name") or "?")),
        launches=1,
        time_us=None if began is None or ended is None else (ended - began) / _NS_PER_US,
        registers=_whole(record.get("registers_per_thread")),
        shared_memory_bytes=None if None in shared else int(sum(filter(None, shared))),
        grid=_triple([record.get(f"grid_{axis}") for axis in _AXES]),
        block=_triple([record.get(f"block_{axis}") for axis in _AXES]),
        tool="cupti",
    )


def _on_device(event: TraceEvent) -> ProfiledKernel:
    told = event.args
    return ProfiledKernel(
        name=short_name(str(event.name)),
        launches=1,
        time_us=event.dur,
        occupancy_percent=number(told.get("est. achieved occupancy %")),
        registers=_whole(told.get("registers per thread")),
        shared_memory_bytes=_whole(told.get("shared memory")),
        grid=_triple(told.get("grid")),
        block=_triple(told.get("block")),
        tool="torch",
    )


def _own_times(operations: list[TraceEvent]) -> list[ProfiledKernel]:
    """Take the time of what an operation called off its own; within a thread, calls are nested."""
    own = {place: each.dur for place, each in enumerate(operations)}
    open_calls: dict[Any, list[int]] = {}
    for place in sorted(own, key=lambda each: (operations[each].ts, -operations[each].dur)):
        event = operations[place]
        callers = open_calls.setdefault(event.tid, [])
        while callers and operations[callers[-1]].ts + operations[callers[-1]].dur <= event.ts:
            callers.pop()
        if callers:
            own[callers[-1]] -= event.dur
        callers.append(place)
    return [
        ProfiledKernel(
            name=str(operations[place].name),
            where="cpu",
            launches=1,
            time_us=max(0.0, time_us),
            tool="torch",
        )
        for place, time_us in own.items()
    ]


def _whole(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def _triple(values: object) -> tuple[int, int, int] | None:
    if not isinstance(values, list) or len(values) != len(_AXES):
        return None
    found = [_whole(each) for each in values]
    x, y, z = found
    return None if x is None or y is None or z is None else (x, y, z)
