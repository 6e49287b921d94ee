"""What every clock keeps: results in order, the garbage collector as it was, no time shorter than it was."""

from __future__ import annotations

import gc
import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="clocks time kernels")

from flashinfer_bench.bench.timing.clocks import (  # noqa: E402  # needs torch
    CudaEvents,
    calibrate,
    clock_for,
)
from flashinfer_bench.bench.timing.cupti import (  # noqa: E402
    Activity,
    ClockHeldError,
    Cupti,
    span_ns,
)
from flashinfer_bench.bench.timing.device_work import spin_call  # noqa: E402
from flashinfer_bench.bench.timing.evicting import EvictorByThreads  # noqa: E402
from flashinfer_bench.bench.timing.wall import (  # noqa: E402
    Clock,
    Evictor,
    WallClock,
    overhead_ns,
    spin_for,
)
from flashinfer_bench.errors import MissingPackageError, UsageError  # noqa: E402

NO_CARD = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device here: not run on a card"
)
NO_CUPTI = pytest.mark.skipif(
    importlib.util.find_spec("cupti") is None, reason="cupti-python is not installed"
)
KNOWN_NS = 2_000_000
CPU = torch.device("cpu")
CLOCKS = [
    pytest.param(("cpu", "wall", "hot"), id="wall"),
    pytest.param(("cpu", "wall", "cold"), id="wall-cold"),
    pytest.param(("cuda", "wall", "hot"), id="cuda-wall", marks=[pytest.mark.gpu, NO_CARD]),
    pytest.param(("cuda", "events", "cold"), id="events", marks=[pytest.mark.gpu, NO_CARD]),
    pytest.param(("cuda", "events", "hot"), id="events-hot", marks=[pytest.mark.gpu, NO_CARD]),
    pytest.param(("cuda", "cupti", "cold"), id="cupti", marks=[pytest.mark.gpu, NO_CARD, NO_CUPTI]),
    pytest.param(
        ("cuda", "cupti", "hot"), id="cupti-hot", marks=[pytest.mark.gpu, NO_CARD, NO_CUPTI]
    ),
]


@pytest.fixture(params=CLOCKS)
def chosen(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    return request.param


@pytest.fixture
def device(chosen: tuple[str, str, str]) -> torch.device:
    return torch.device(chosen[0])


@pytest.fixture
def clock(chosen: tuple[str, str, str], device: torch.device) -> Clock:
    _, name, cache = chosen
    clock = clock_for(device, name, cache)
    clock.begin(KNOWN_NS)
    yield clock
    if isinstance(clock, Cupti):
        clock.close()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("cpu", WallClock),
        pytest.param("cuda", CudaEvents, marks=[pytest.mark.gpu, NO_CARD]),
    ],
)
def test_a_device_has_its_clock(kind: str, expected: type[Clock]) -> None:
    assert isinstance(clock_for(torch.device(kind)), expected)


def test_a_clock_of_a_cpu_empties_no_caches_and_its_version_says_where_somebody_else_does() -> None:
    clocks = [clock_for(CPU, "auto", cache) for cache in ("auto", "hot", "cold", "both")]

    assert [each.is_cold for each in clocks] == [False] * 4
    assert [each.version for each in clocks] == ["1", "1", "2", "2"]


@pytest.mark.gpu
@NO_CARD
def test_a_cache_is_cold_on_a_gpu_unless_it_is_to_be_hot() -> None:
    cuda = torch.device("cuda")

    assert [clock_for(cuda, "auto", cache).is_cold for cache in ("auto", "hot", "cold")] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("name", ["events", "cupti"])
def test_a_clock_of_gpus_is_refused_on_a_cpu_and_none_stands_in_for_it(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name!r} times CUDA devices; on cpu there is 'wall'"):
        clock_for(CPU, name)


@pytest.mark.gpu
@NO_CARD
@pytest.mark.skipif(importlib.util.find_spec("cupti") is not None, reason="cupti-python is here")
def test_cupti_is_missed_by_name_and_with_the_line_to_type() -> None:
    with pytest.raises(MissingPackageError, match=r"pip install 'flashinfer-bench\[cuda\]'"):
        clock_for(torch.device("cuda"), "cupti")


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


def test_an_empty_call_takes_little(clock: Clock) -> None:
    assert 0 <= overhead_ns(clock, repeats=50) < 100_000


def test_calibration_tells_of_calls_of_known_length(clock: Clock, device: torch.device) -> None:
    found = calibrate(clock, device)

    assert found.keys() == {"empty_call_ns", "copy_gb_per_s", "spin_ratio"}
    assert found["copy_gb_per_s"] > 0.05
    ratios = [found["spin_ratio"], *(calibrate(clock, device)["spin_ratio"] for _ in range(6))]
    assert 0.9 <= statistics.median(ratios) < 1.1  # a busy machine spoils one or two


@pytest.mark.parametrize(
    "chosen", [each for each in CLOCKS if each.id != "wall-cold"], indirect=True
)  # how long a CPU reads the buffer that evicts depends on who else reads
def test_what_a_sample_costs_beside_its_calls_does_not_depend_on_their_number(
    clock: Clock, device: torch.device
) -> None:
    spin = spin_call(device)
    clock.time_ns(spin, [(KNOWN_NS,)])

    besides_ns = {count: beside_ns(clock, spin, count) for count in (1, 8)}

    assert abs(besides_ns[8] - besides_ns[1]) < 7 * (0.1 * KNOWN_NS)


def beside_ns(clock: Clock, spin: Callable[[int], object], count: int) -> float:
    """What a clock outside sees of a sample, less what this one says: the least of several."""
    seen = []
    for _ in range(9):
        began_ns = time.perf_counter_ns()
        claimed_ns, _ = clock.time_ns(spin, [(KNOWN_NS,)] * count)
        seen.append(time.perf_counter_ns() - began_ns - claimed_ns)
    return min(seen)


@pytest.mark.gpu
@NO_CARD
@pytest.mark.parametrize(("name", "is_told"), [("events", True), ("wall", True)])
def test_on_a_gpu_the_time_the_host_is_kept_is_told_apart(name: str, is_told: bool) -> None:
    cuda = torch.device("cuda")
    clock = clock_for(cuda, name)

    taken_ns, _ = clock.time_ns(spin_call(cuda), [(KNOWN_NS,)])

    assert (clock.host_ns is not None) is is_told
    assert clock.host_ns < 200_000 < taken_ns


def test_on_a_cpu_there_is_no_other_time_than_the_hosts() -> None:
    clock = WallClock()

    clock.time_ns(spin_for, [(1000,)])

    assert clock.host_ns is None


def test_a_cold_clock_evicts_before_the_window_opens_and_once_a_sample() -> None:
    order: list[str] = []
    clock = WallClock(evict=lambda: order.append("evicted"))

    taken_ns, _ = clock.time_ns(order.append, [("called",), ("called",)])

    assert order == ["evicted", "called", "called"]
    assert taken_ns < 1_000_000
    assert clock.is_cold


def test_a_clock_that_settles_waits_for_what_the_calls_started() -> None:
    clock = WallClock(settle=lambda: time.sleep(0.01))

    taken_ns, _ = clock.time_ns(int, [()])

    assert taken_ns >= 10_000_000 > clock.host_ns


def test_the_evictor_reads_all_of_its_buffer() -> None:
    small, large = Evictor(1 << 16), Evictor(1 << 24)

    short_ns = min(WallClock().time_ns(small, [()])[0] for _ in range(9))
    long_ns = min(WallClock().time_ns(large, [()])[0] for _ in range(9))

    assert long_ns > 20 * short_ns


def test_each_processor_reads_its_part_of_what_empties_caches() -> None:
    processors = sorted(os.sched_getaffinity(0))
    small, large = (EvictorByThreads(size, processors) for size in (1 << 20, 1 << 26))

    short_ns = min(WallClock().time_ns(small, [()])[0] for _ in range(9))
    long_ns = min(WallClock().time_ns(large, [()])[0] for _ in range(9))

    assert long_ns > 5 * short_ns
    names = Path("/proc/self/task").iterdir()
    allowed = [os.sched_getaffinity(int(each.name)) for each in names]
    assert all({each} in allowed for each in processors)


def test_kernel_activity_spans_from_the_first_start_to_the_last_end_without_the_spin() -> None:
    own = [Activity(1, 0, 1), Activity(2, 2, 500)]
    early, late = Activity(3, 505, 600), Activity(4, 560, 580)

    assert span_ns([late, *own, early], own=2) == 95


def test_no_activity_but_our_own_is_no_time() -> None:
    assert span_ns([Activity(4, 0, 1), Activity(5, 2, 500)], own=2) == 0


@pytest.mark.parametrize("recorded", [[], [Activity(4, 0, 1)]])
def test_not_all_of_our_own_recorded_means_that_another_profiler_listens(
    recorded: list[Activity],
) -> None:
    with pytest.raises(ClockHeldError, match="another profiler in this process holds CUPTI"):
        span_ns(recorded, own=2)


def test_only_a_clock_that_tells_late_says_first_that_all_is_computed(clock: Clock) -> None:
    said: list[str] = []

    clock.time_ns(int, [()], lambda: said.append("done"))

    assert bool(said) is clock.is_told_late


@pytest.fixture
def cupti_clock() -> Cupti:
    clock = clock_for(torch.device("cuda"), "cupti")
    yield clock
    clock.close()


@pytest.mark.gpu
@NO_CARD
@NO_CUPTI
def test_a_second_listener_to_cupti_is_refused_and_told_what_to_do(cupti_clock: Cupti) -> None:
    with pytest.raises(ClockHeldError, match="--clock events"):
        clock_for(torch.device("cuda"), "cupti")


@pytest.mark.gpu
@NO_CARD
@NO_CUPTI
def test_a_profiler_that_comes_later_takes_nothing_away(cupti_clock: Cupti) -> None:
    kinds = [torch.profiler.ProfilerActivity.CUDA]

    with torch.profiler.profile(activities=kinds):
        taken_ns, _ = cupti_clock.time_ns(torch.cuda._sleep, [(1_000_000,)])

    assert taken_ns > 1_000_000 / 2.5


@pytest.mark.gpu
@NO_CARD
@NO_CUPTI
def test_a_profiler_that_was_there_first_is_told_of_and_nothing_stands_in() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPENED_BESIDE_A_PROFILER],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "ClockHeldError: another profiler in this process holds CUPTI" in done.stderr


OPENED_BESIDE_A_PROFILER = """
import torch
from flashinfer_bench.bench.timing.clocks import clock_for

device = torch.device("cuda")
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
    torch.ones(8, device=device).sum().item()
    clock_for(device, "cupti")
"""
