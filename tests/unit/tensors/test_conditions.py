"""Disturbed blocks are told from quiet ones; a machine that is always disturbed is not waited for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from flashinfer_bench.tensors.conditions import (
    Conditions,
    CpuConditions,
    GpuConditions,
    Undisturbed,
    gpu_conditions,
)

HEAT = 0x20
POWER, THERMAL = 0, 1


class Scripted:
    """An observer that says what it is told to."""

    def __init__(self, *said: str | None) -> None:
        self.said = iter(said)
        self.temperature = 40.0

    def before(self) -> None:
        self.temperature += 1

    def after(self) -> str | None:
        return next(self.said)

    def has_company(self) -> bool:
        return False

    def gauges(self) -> dict[str, float]:
        return {"temperature_c": self.temperature}


def seen_by(conditions: Conditions, blocks: int) -> list[bool]:
    repeated = []
    for _ in range(blocks):
        conditions.before_block()
        repeated.append(conditions.must_repeat())
    return repeated


def test_quiet_blocks_count() -> None:
    conditions = Conditions(Scripted(None, None), 3)

    assert seen_by(conditions, 2) == [False, False]
    assert conditions.discarded == 0
    assert not conditions.reasons


def test_disturbed_blocks_are_repeated_within_a_bound_and_then_counted() -> None:
    conditions = Conditions(Scripted(*["throttled by heat"] * 5), repeats_left=3)

    assert seen_by(conditions, 5) == [True, True, True, False, False]
    assert conditions.discarded == 3
    assert conditions.reasons == {"throttled by heat": 2}


def test_gauges_are_kept_as_ranges() -> None:
    conditions = Conditions(Scripted(None, None, None), 3)

    seen_by(conditions, 3)

    assert conditions.ranges == {"temperature_c": (41.0, 43.0)}


class NvmlRefusesError(Exception):
    """What the fake driver raises for what it does not know."""


class FakeNvml:
    """Readings as NVML gives them, made by hand."""

    NVMLError = NvmlRefusesError
    NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL = POWER, THERMAL
    NVML_CLOCK_SM = NVML_TEMPERATURE_GPU = 0
    nvmlClocksEventReasonHwSlowdown = 0x8  # noqa: N815
    nvmlClocksEventReasonSwThermalSlowdown = HEAT  # noqa: N815
    nvmlClocksEventReasonHwThermalSlowdown = 0x40  # noqa: N815
    nvmlClocksEventReasonHwPowerBrakeSlowdown = 0x80  # noqa: N815

    def __init__(self) -> None:
        self.reasons = 0
        self.throttled_ns: dict[int, int] | None = {POWER: 0, THERMAL: 0}

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: object) -> int:  # noqa: N802
        return self.reasons

    def nvmlDeviceGetViolationStatus(self, handle: object, policy: int) -> object:  # noqa: N802
        if self.throttled_ns is None:
            raise NvmlRefusesError
        return SimpleNamespace(violationTime=self.throttled_ns[policy])

    def nvmlDeviceGetClockInfo(self, handle: object, which: int) -> int:  # noqa: N802
        return 1980

    def nvmlDeviceGetTemperature(self, handle: object, which: int) -> int:  # noqa: N802
        return 61

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:  # noqa: N802
        raise NvmlRefusesError


def test_a_card_that_was_throttled_for_most_of_a_block_is_disturbed() -> None:
    nvml = FakeNvml()
    card = GpuConditions(nvml, "handle")

    card.before()
    time.sleep(0.01)
    nvml.throttled_ns = {POWER: 9_000_000, THERMAL: 0}

    assert card.after() == "throttled by the power limit"


def test_a_card_that_was_throttled_before_the_block_is_not() -> None:
    nvml = FakeNvml()
    nvml.throttled_ns = {POWER: 9_000_000_000, THERMAL: 5_000_000_000}
    card = GpuConditions(nvml, "handle")

    card.before()

    assert card.after() is None


def test_where_nothing_is_counted_what_is_in_force_at_the_end_decides() -> None:
    nvml = FakeNvml()
    nvml.throttled_ns, nvml.reasons = None, HEAT
    card = GpuConditions(nvml, "handle")

    card.before()

    assert card.after() == "throttled by heat"


def test_an_idle_or_capped_clock_alone_disturbs_nothing() -> None:
    nvml = FakeNvml()
    nvml.reasons = 0x1 | 0x2 | 0x4  # idle, application clocks, power cap at this very moment
    card = GpuConditions(nvml, "handle")

    card.before()

    assert card.after() is None


def test_what_a_card_does_not_tell_is_left_out() -> None:
    assert GpuConditions(FakeNvml(), "handle").gauges() == {
        "sm_clock_mhz": 1980.0,
        "temperature_c": 61.0,
    }


def test_a_card_that_nvml_does_not_know_is_not_watched() -> None:
    assert isinstance(gpu_conditions("GPU-of-nobody"), Undisturbed)


@pytest.fixture
def proc(tmp_path: Path) -> Callable[..., None]:
    """Write what is counted: ticks of busy and stolen time, nanoseconds participants waited."""

    def write(*, busy: int = 0, stolen: int = 0, waited_ns: int = 0, throttled: int = 0) -> None:
        (tmp_path / "stat").write_text(f"cpu  {busy} 0 0 1000 0 0 0 {stolen} 0 0\ncpu0 1\n")
        (tmp_path / "waited").write_text(str(waited_ns))
        counts = tmp_path / "cpu0" / "thermal_throttle"
        counts.mkdir(parents=True, exist_ok=True)
        (counts / "core_throttle_count").write_text(f"{throttled}\n")

    write()
    return write


def conditions_of(tmp_path: Path, own_ns: Callable[[], int]) -> CpuConditions:
    def waited_ns() -> int:
        return int((tmp_path / "waited").read_text())

    return CpuConditions(own_ns, waited_ns, proc=tmp_path, processors=tmp_path)


def watched(tmp_path: Path, own_ns: int = 0) -> CpuConditions:
    own = iter([0, own_ns])
    return conditions_of(tmp_path, lambda: next(own))


ALL_TICKS = 20 * (os.cpu_count() or 1)  # of 0.2 s


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        ({"throttled": 1}, "throttled by heat"),
        ({"waited_ns": 150_000_000, "busy": ALL_TICKS // 5}, "waited for a processor"),
        ({"waited_ns": 150_000_000}, None),  # for each other
        ({"stolen": ALL_TICKS}, "processors were taken by the host"),
        ({"busy": ALL_TICKS}, "other programs computed"),
        ({}, None),
    ],
)
def test_what_the_kernel_counts_says_what_disturbed(
    tmp_path: Path, proc: Callable[..., None], counted: dict[str, int], said: str | None
) -> None:
    cpu = watched(tmp_path)
    cpu.before()
    time.sleep(0.21)

    proc(**counted)

    assert cpu.after() == said


def test_what_the_benchmark_itself_computes_is_no_other_program(
    tmp_path: Path, proc: Callable[..., None]
) -> None:
    cpu = watched(tmp_path, own_ns=ALL_TICKS * 10_000_000)
    cpu.before()
    time.sleep(0.21)

    proc(busy=ALL_TICKS)

    assert cpu.after() is None


@pytest.mark.parametrize(
    ("counted", "own_ticks", "is_noisy"),
    [
        ({}, 0, False),
        (
            {"busy": 3},
            0,
            False,
        ),  # of whole hundredths of a second on each processor, that is nothing
        ({"busy": ALL_TICKS}, 0, True),
        ({"stolen": ALL_TICKS}, 0, True),
        ({"busy": ALL_TICKS}, ALL_TICKS, False),
    ],
)
def test_blocks_too_short_to_tell_are_in_company_where_the_whole_job_was(
    tmp_path: Path,
    proc: Callable[..., None],
    counted: dict[str, int],
    own_ticks: int,
    *,
    is_noisy: bool,
) -> None:
    own = iter([0, own_ticks * 10_000_000])
    conditions = Conditions(conditions_of(tmp_path, lambda: next(own)), repeats_left=0)

    assert seen_by(conditions, 3) == [False] * 3
    proc(**counted)

    assert not conditions.reasons
    assert conditions.is_noisy is is_noisy


def test_blocks_too_short_to_tell_are_all_disturbed_where_the_whole_job_was(
    tmp_path: Path, proc: Callable[..., None]
) -> None:
    conditions = Conditions(conditions_of(tmp_path, lambda: 0), repeats_left=0)

    assert seen_by(conditions, 3) == [False] * 3
    assert conditions.disturbed(3) == {}
    proc(busy=ALL_TICKS)

    assert conditions.disturbed(3) == {"other programs computed": 3}


def test_ticks_are_not_believed_over_a_few_milliseconds(
    tmp_path: Path, proc: Callable[..., None]
) -> None:
    cpu = watched(tmp_path)
    cpu.before()

    proc(busy=2, stolen=2)

    assert cpu.after() is None


def test_blocks_too_short_to_count_in_are_looked_at_together(
    tmp_path: Path, proc: Callable[..., None]
) -> None:
    own = iter([0, 0, 0])
    cpu = conditions_of(tmp_path, lambda: next(own))
    cpu.before()
    assert cpu.after() is None

    cpu.before()
    time.sleep(0.21)
    proc(stolen=ALL_TICKS)

    assert cpu.after() == "processors were taken by the host"


def test_the_real_kernel_is_read() -> None:
    cpu = CpuConditions(time.process_time_ns, lambda: 0)

    cpu.before()
    cpu.after()

    assert cpu.gauges().keys() == {"load_average"}
