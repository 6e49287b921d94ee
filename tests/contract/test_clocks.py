"""What every clock keeps: results in order, the garbage collector as it was, no time shorter than it was."""

from __future__ import annotations

import gc
import time

import pytest

torch = pytest.importorskip("torch", reason="clocks time kernels")

from flashinfer_bench.bench.timing.clocks import (  # noqa: E402  # needs torch
    CudaEvents,
    calibrate,
    clock_for,
)
from flashinfer_bench.bench.timing.wall import (  # noqa: E402
    Clock,
    WallClock,
    overhead_ns,
    spin_for,
)

NO_CARD = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device here: not run on a card"
)
KNOWN_NS = 2_000_000


@pytest.fixture(
    params=[
        pytest.param("cpu", id="wall"),
        pytest.param("cuda", id="cuda_events", marks=[pytest.mark.gpu, NO_CARD]),
    ]
)
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture
def clock(device: torch.device) -> Clock:
    return clock_for(device)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("cpu", WallClock),
        pytest.param("cuda", CudaEvents, marks=[pytest.mark.gpu, NO_CARD]),
    ],
)
def test_a_device_has_its_clock(kind: str, expected: type[Clock]) -> None:
    assert isinstance(clock_for(torch.device(kind)), expected)


@pytest.mark.parametrize("count", [1, 2, 17])
def test_results_come_in_the_order_of_the_calls(clock: Clock, count: int) -> None:
    _, results = clock.time_ns(lambda number: number * 2, [(number,) for number in range(count)])

    assert results == [2 * number for number in range(count)]


def test_each_call_gets_its_own_arguments(clock: Clock) -> None:
    _, results = clock.time_ns(lambda *numbers: sum(numbers), [(1,), (1, 2), ()])

    assert results == [1, 3, 0]


def test_a_clock_says_how_it_times(clock: Clock) -> None:
    assert clock.name
    assert clock.version
    assert clock.latency_kind in {"device", "call", "wall"}
    assert clock.is_cold in {True, False}


def fail() -> None:
    raise ArithmeticError("no kernel today")


@pytest.fixture(params=[True, False], ids=["on", "off"])
def collects(request: pytest.FixtureRequest) -> bool:
    """Whether the garbage collector is on before and, by contract, after."""
    was_enabled = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("count", [1, 3])
def test_the_garbage_collector_is_left_as_it_was(clock: Clock, collects: bool, count: int) -> None:
    clock.time_ns(int, [()] * count)

    assert gc.isenabled() is collects


@pytest.mark.parametrize("count", [1, 3])
def test_the_garbage_collector_is_left_as_it_was_when_a_call_raises(
    clock: Clock, collects: bool, count: int
) -> None:
    with pytest.raises(ArithmeticError, match="no kernel today"):
        clock.time_ns(fail, [()] * count)

    assert gc.isenabled() is collects


def test_cyclic_garbage_is_not_collected_while_the_wall_clock_runs() -> None:
    _, results = WallClock().time_ns(gc.isenabled, [(), ()])

    assert results == [False, False]


@pytest.mark.parametrize("count", [1, 4])
def test_the_wall_clock_never_takes_a_call_for_shorter_than_it_is(count: int) -> None:
    taken_ns, _ = WallClock().time_ns(spin_for, [(KNOWN_NS,)] * count)

    assert taken_ns >= count * KNOWN_NS


def test_the_wall_clock_counts_time_spent_asleep() -> None:
    taken_ns, _ = WallClock().time_ns(time.sleep, [(0.005,)])

    assert 5_000_000 <= taken_ns < 500_000_000


def test_the_shortest_of_many_spins_is_measured_right() -> None:
    clock = WallClock()

    shortest_ns = min(clock.time_ns(spin_for, [(KNOWN_NS,)])[0] for _ in range(30))

    assert KNOWN_NS <= shortest_ns < 1.01 * KNOWN_NS


@pytest.mark.gpu
@NO_CARD
def test_cuda_events_never_take_a_kernel_for_shorter_than_it_is() -> None:
    clock = CudaEvents(torch.device("cuda"))
    clock.time_ns(torch.cuda._sleep, [(1_000_000,)])

    taken_ns, _ = clock.time_ns(torch.cuda._sleep, [(10_000_000,)])

    assert taken_ns >= 10_000_000 / 2.5  # no card of today runs faster than 2.5 GHz


def test_an_empty_call_takes_little_but_something(clock: Clock) -> None:
    assert 0 < overhead_ns(clock, repeats=50) < 100_000


def test_calibration_tells_of_calls_of_known_length(clock: Clock, device: torch.device) -> None:
    found = calibrate(clock, device)

    assert found["empty_call_ns"] > 0
    assert found["copy_gb_per_s"] > 0.05


def test_calibration_of_the_wall_clock_spins_for_as_long_as_it_says() -> None:
    found = calibrate(WallClock(), torch.device("cpu"))

    assert found.keys() == {"empty_call_ns", "copy_gb_per_s", "spin_ratio"}
    assert 1.0 <= found["spin_ratio"] < 2.0
