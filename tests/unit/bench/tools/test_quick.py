from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

import flashinfer_bench as fib
from flashinfer_bench.errors import UsageError


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

    fib.compare({"one": one, "two": two}, samples=4, warmup=1)

    warm_up, turns = "".join(calls[:2]), "".join(calls[2:])
    blocks = [turns[begin : begin + 4] for begin in range(0, len(turns), 4)]
    assert warm_up == "12"
    assert len(blocks) == 4
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
