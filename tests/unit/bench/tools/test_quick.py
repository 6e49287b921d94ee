from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import flashinfer_bench as fib
from flashinfer_bench.bench.timing.wall import WallClock
from flashinfer_bench.bench.tools import quick
from flashinfer_bench.bench.tools.quick import _speedup
from flashinfer_bench.errors import UsageError
from flashinfer_bench.stats.verdicts import Ratio
from flashinfer_bench.tensors.conditions import CpuConditions, Undisturbed


def spin(duration_ns: int) -> None:
    until_ns = time.perf_counter_ns() + duration_ns
    while time.perf_counter_ns() < until_ns:
        pass


def test_a_call_of_known_length_is_measured_right() -> None:
    found = fib.measure(spin, 200_000, samples=30)

    assert 0.200 <= found.latency_ms < 0.300
    assert found.latency_interval_ms is not None
    assert found.latency_interval_ms[0] <= found.latency_ms <= found.latency_interval_ms[1]
    assert (found.sample_count, found.block_count, found.calls_per_sample) == (30, 10, 1)
    assert (found.clock, found.latency_kind, found.is_cold) == ("wall", "wall", False)


def test_short_calls_are_timed_several_at_a_time() -> None:
    found = fib.measure(abs, -1)

    assert found.calls_per_sample > 50
    assert found.latency_ms < 0.001


def test_twice_the_work_is_slower_and_half_of_it_faster() -> None:
    lengths = {"one": 100_000, "two": 200_000, "half": 50_000}
    functions = {name: (lambda length=length: spin(length)) for name, length in lengths.items()}

    found = fib.compare(functions, samples=30)

    assert found.baseline == "one"
    assert found.fastest == "half"
    assert found.verdict("two") is fib.Verdict.SLOWER
    assert found.verdict("half") is fib.Verdict.FASTER
    assert found.ratios["half"].value == pytest.approx(2.0, rel=0.2)


def test_all_take_the_same_number_of_calls_and_samples_in_turns() -> None:
    calls: list[str] = []

    def one() -> None:
        calls.append("1")
        spin(50_000)

    def two() -> None:
        calls.append("2")
        spin(50_000)

    found = fib.compare({"one": one, "two": two}, samples=4, warmup=1)

    again = sum(each.blocks_disturbed for each in found.measurements.values())
    warm_up, turns = "".join(calls[:2]), "".join(calls[2:])
    blocks = [turns[begin : begin + 4] for begin in range(0, len(turns), 4)]
    assert warm_up == "12"
    assert 4 <= len(blocks) <= 4 + again
    assert set(blocks) <= {"1122", "2211"}


def test_sampling_ends_when_the_time_is_over() -> None:
    began_s = time.monotonic()

    found = fib.measure(time.sleep, 0.02, samples=1000, max_seconds=0.1)

    assert time.monotonic() - began_s < 10
    assert found.sample_count == 100  # a whole block


def test_a_result_prints_and_is_json_ready() -> None:
    found = fib.compare({"up": sorted, "again": sorted}, [[3, 1, 2]], samples=12)

    document = json.loads(json.dumps(found.to_dict()))

    assert document["baseline"] == "up"
    assert document["ratios"]["again"]["verdict"] in {"SAME", "UNDECIDED", "FASTER", "SLOWER"}
    assert len(document["measurements"]["up"]["samples_ms"]) == 12
    assert str(found).splitlines()[0] == "against up"
    assert str(found.measurements["up"]).startswith("up: ")
    assert "samples_ms" not in repr(found)


def test_what_a_callable_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        fib.measure(lambda: 1 / 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fib.compare({}), "nothing to compare"),
        (lambda: fib.compare({"a": 3}), "'a' is no callable but int"),
        (
            lambda: fib.compare({"a": abs}, [1], baseline="b"),
            "no callable is named 'b'; there are a",
        ),
        (lambda: fib.compare({"a": abs}, [1], threshold=2), "a threshold lies between 0 and 1"),
        (lambda: fib.measure(abs, 1, samples=0), "samples are at least 1"),
    ],
)
def test_what_cannot_be_measured_is_one_message(call: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()  # type: ignore[operator]


def test_plain_callables_need_no_torch() -> None:
    code = "import sys, flashinfer_bench as fib; fib.measure(abs, 1); print('torch' in sys.modules)"
    command = [sys.executable, "-c", code]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_a_torch_function_on_the_cpu_is_timed_by_the_wall_clock() -> None:
    torch = pytest.importorskip("torch")

    found = fib.measure(torch.softmax, torch.randn(64, 64), -1, samples=10)

    assert (found.name, found.clock) == ("softmax", "wall")


def test_asking_for_a_card_that_is_not_there_is_one_message() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a card here")

    with pytest.raises(UsageError, match="no CUDA device"):
        fib.measure(abs, 1, device="cuda")


def test_caches_are_evicted_on_request_and_one_call_makes_a_sample() -> None:
    found = fib.measure(sorted, [3, 1, 2], samples=5, warmup=1, cache="cold")

    assert (found.is_cold, found.calls_per_sample, found.clock) == (True, 1, "wall")


@pytest.mark.parametrize("clock", ["events", "cupti"])
def test_a_clock_of_gpus_is_refused_for_what_runs_on_a_cpu(clock: str) -> None:
    with pytest.raises(UsageError, match=f"clock {clock!r} times CUDA devices"):
        fib.measure(sorted, [3, 1, 2], clock=clock)


class ToldClock:
    """Callables return the nanoseconds that a call takes."""

    name = "wall"
    latency_kind = "wall"
    is_cold = True
    host_ns = None

    def begin(self, _: float | None = None) -> None:
        """Nothing is prepared."""

    def time_ns(
        self, function: Callable[..., Any], calls: Sequence[Sequence[object]]
    ) -> tuple[float, None]:
        """Add up what calls say."""
        return sum(function(*each) or 0.0 for each in calls), None


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "_clock_of", lambda *_: ToldClock())


@pytest.mark.usefixtures("told")
def test_warm_up_goes_on_until_calls_are_alike() -> None:
    restless = itertools.chain([1e6, 20e6] * 10, itertools.repeat(1e6))

    found = fib.measure(lambda: next(restless), samples=6, warmup=10)

    assert found.samples_ms == (1.0,) * 6
    assert found.blocks_disturbed == 0


@pytest.mark.usefixtures("told")
def test_a_disturbed_block_is_taken_again_and_named() -> None:
    """The first timed block takes sixteen times as long, as when threads wait for a core."""
    times = itertools.chain([1e6] * 10, [16e6] * 3, itertools.repeat(1e6))

    found = fib.compare({"even": lambda: 3e6, "odd": lambda: next(times)}, samples=24)

    assert found.measurements["odd"].blocks_disturbed == 1
    assert "the machine disturbed 1 block, taken again" in str(found)
    assert found.ratios["odd"].interval == (3.0, 3.0)


def test_an_interval_that_says_nothing_is_not_printed() -> None:
    ratio = Ratio(7.0, (7.0, 4552.0), fib.Verdict.FASTER)

    assert _speedup(ratio) == "7.00x (too noisy for an interval)"


class Busy(Undisturbed):
    """A machine on which others compute."""

    def has_company(self) -> bool:
        """See them."""
        return True


@pytest.mark.usefixtures("told")
def test_programs_that_slow_all_blocks_alike_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No block stands out, so that blocks do not tell."""
    said = "other programs computed meanwhile, times may be longer than alone: measure once more"

    monkeypatch.setattr(quick, "_machine", lambda _: Undisturbed())
    quiet = fib.compare({"one": lambda: 2e6, "two": lambda: 4e6}, samples=24)
    monkeypatch.setattr(quick, "_machine", lambda _: Busy())
    busy = fib.compare({"one": lambda: 2e6, "two": lambda: 4e6}, samples=24)
    alone = fib.measure(lambda: 2e6, samples=24)

    assert said in str(busy)
    assert said in str(alone)
    assert alone.to_dict()["had_company"] is True
    assert "other programs" not in str(quiet)


def test_a_processor_is_watched_where_it_is_what_is_timed() -> None:
    assert isinstance(quick._machine(WallClock()), CpuConditions)
