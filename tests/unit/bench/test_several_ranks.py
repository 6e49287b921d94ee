"""Definitions of several ranks without a process: what is refused, skipped, drawn, locked, and held against whom."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from pydantic import ValidationError

from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.jobs import Job, Target
from flashinfer_bench.bench.judge.rank_inputs import RankInputs
from flashinfer_bench.bench.judge.ranked_evaluation import work_beside
from flashinfer_bench.bench.outcomes import Outcome
from flashinfer_bench.bench.parent import pool
from flashinfer_bench.bench.parent.device_locks import device_lock
from flashinfer_bench.bench.parent.pool import LocalPool
from flashinfer_bench.bench.plan import plan
from flashinfer_bench.bench.sandbox.policy import Sandbox
from flashinfer_bench.bench.several_ranks import UNCHECKED, require_one_rank
from flashinfer_bench.data import Definition
from flashinfer_bench.errors import UsageError
from flashinfer_bench.tensors.devices import Cpu
from tests.flow.kernels import HONEST, INCREMENT, dataset, solution
from tests.unit.bench.values import ATTEMPT, CPU, OPENED, job, passed

H100 = Target("cuda", "NVIDIA H100", threads=2)
TWO_CARDS = replace(H100, device_count=2)
RANKED = Definition.model_validate(INCREMENT.to_dict() | {"world_size": 2})
TENSOR = {"shape": ["n"], "dtype": "float32"}
KEY, TRIAL, CALL = 7, 0, 3


def reasons(target: Target, **settings: Any) -> list[str]:
    made = solution(HONEST)
    spec = made.spec.model_copy(update={"target_hardware": ["cpu", "cuda"]})
    traces = dataset(made.model_copy(update={"spec": spec}), definition=RANKED)
    planned = plan(traces, BenchmarkConfig(workload_class="all", **settings), target)
    return [reason for _, reason in planned.skipped]


def test_a_job_is_skipped_where_there_are_fewer_cards_than_ranks() -> None:
    (reason,) = reasons(H100)

    assert reason.startswith("needs 2 devices, one for each rank, and the run has 1")
    assert "--device cuda:0,cuda:1" in reason


@pytest.mark.parametrize("target", [TWO_CARDS, CPU])
def test_a_job_is_planned_where_there_is_a_place_for_each_rank(target: Target) -> None:
    assert reasons(target) == []


@pytest.mark.parametrize(
    ("target", "settings", "said"),
    [
        (CPU, {"sandbox": "container"}, "--sandbox process"),
        (CPU, {"cache": "cold"}, "--cache hot"),
        (TWO_CARDS, {"launch": "graph"}, "--launch graph"),
        (TWO_CARDS, {"cache": "both"}, "--cache both"),
        (TWO_CARDS, {"lock_clocks": True}, "--lock-clocks"),
    ],
)
def test_a_way_of_timing_that_several_ranks_do_not_have_is_named(
    target: Target, settings: dict[str, Any], said: str
) -> None:
    (reason,) = reasons(target, **settings)

    assert said in reason


def test_a_tool_that_looks_at_one_process_refuses_and_says_what_runs_all() -> None:
    require_one_rank(INCREMENT, "a tool")

    with pytest.raises(UsageError, match="`run`, `check` and `replay` run all ranks"):
        require_one_rank(RANKED, "a tool")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"world_size": 1}, "world_size"),
        ({"world_size": 65}, "world_size"),
        ({"inputs": {"x": TENSOR | {"replicated": True}}}, "needs a `world_size`"),
        ({"outputs": {"y": TENSOR | {"replicated": True}}}, "for inputs"),
        ({"world_size": 2, "min_bytes": "n"}, "min_bytes"),
    ],
)
def test_what_means_nothing_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Definition.model_validate(INCREMENT.to_dict() | changes)


def test_the_number_of_ranks_is_part_of_what_is_computed_and_one_rank_is_written_as_before() -> (
    None
):
    assert RANKED.hash() != INCREMENT.hash()
    assert not {"world_size", "replicated"} & set(INCREMENT.to_json().split('"'))


def inputs_of_each_rank() -> list[list[torch.Tensor]]:
    inputs = {"x": TENSOR, "w": TENSOR | {"replicated": True}, "s": TENSOR | {"role": "static"}}
    made = Definition.model_validate(RANKED.to_dict() | {"inputs": inputs})
    drawn = RankInputs(made, job(size=64).workload, key=KEY, files=None, device=Cpu())
    return [[each.clone() for each in drawn.inputs_of(rank, TRIAL, CALL)[0]] for rank in range(2)]


def test_ranks_draw_their_own_inputs_and_share_what_is_replicated() -> None:
    first, second = inputs_of_each_rank()

    equal = [torch.equal(one, other) for one, other in zip(first, second, strict=True)]

    assert equal == [False, True, False]


def test_inputs_follow_from_the_key() -> None:
    assert all(
        torch.equal(one, other)
        for rank, again in zip(inputs_of_each_rank(), inputs_of_each_rank(), strict=True)
        for one, other in zip(rank, again, strict=True)
    )


def test_no_rank_learns_a_seed_of_another() -> None:
    drawn = RankInputs(RANKED, job(size=8).workload, key=KEY, files=None, device=Cpu())

    seeds = [
        {drawn.trial_seeds(rank, TRIAL)[0], drawn.call_seeds(rank, TRIAL, CALL)[0]}
        for rank in range(2)
    ]

    assert len(seeds[0] | seeds[1]) == 4


QUIET = [100.0 + number % 5 for number in range(40)]


@pytest.mark.parametrize(
    ("own", "latency_ns", "is_hidden"),
    [
        (QUIET, 100.0, False),
        ([each + 50.0 for each in QUIET], 100.0, True),
        ([each + 50.0 for each in QUIET], 1000.0, False),
        ([*QUIET[:20], *[each + 500.0 for each in QUIET[20:]]], 100.0, False),
    ],
    ids=["alike", "in every call", "less than a tenth", "in half of the calls"],
)
def test_work_beside_the_reported_time_is_seen_where_it_is_in_most_calls(
    own: list[float], latency_ns: float, is_hidden: bool
) -> None:
    found = work_beside(own, QUIET, latency_ns)

    assert (found.hidden_ns is not None) is is_hidden


def test_work_in_half_of_the_calls_counts_as_unaccounted() -> None:
    half = [*QUIET[:20], *[each + 500.0 for each in QUIET[20:]]]

    assert work_beside(half, QUIET, 100.0).unaccounted_ns > 400.0


def test_the_page_names_what_is_not_looked_at() -> None:
    page = (Path(__file__).parents[3] / "docs" / "several-ranks.md").read_text(encoding="utf-8")

    told = re.findall(r"^\| `(\w+)` \| .*$", page.split("| `unchecked` |")[1], re.MULTILINE)

    assert tuple(told) == UNCHECKED


class _Idle:
    def __init__(self, **_: Any) -> None: ...

    def start(self) -> None: ...

    def close(self) -> None: ...


class _TwoDeviceSession:
    """Names its devices own one first, and looks which locks are held while a job runs."""

    sandbox, attempt = Sandbox("process"), ATTEMPT

    def __init__(self, device: str, seen: list[tuple[bool, bool]]) -> None:
        self._device, self._seen = device, seen

    def open(self) -> object:
        names = {"cuda:0": "test-rank-b", "cuda:1": "test-rank-a"}
        return msgspec.structs.replace(OPENED, lock_name=names[self._device], lock_names=names)

    def devices_of(self, _: Job) -> tuple[str, ...]:
        return (self._device, *({"cuda:0", "cuda:1"} - {self._device}))

    def run(self, _: Job) -> Outcome:
        self._seen.append((_is_held("test-rank-a"), _is_held("test-rank-b")))
        return passed()

    def close(self) -> None: ...

    def build_ms(self, _: object) -> None: ...

    def end_candidate(self) -> None: ...


def _is_held(name: str) -> bool:
    lock = device_lock(name)
    try:
        lock.acquire(timeout=0)
    except TimeoutError:
        return True
    lock.release()
    return False


def test_jobs_on_both_devices_hold_both_locks_and_never_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "Launcher", _Idle)
    seen: list[tuple[bool, bool]] = []

    class FakePool(LocalPool):
        def open_session(self, launcher: Any, device: str) -> Any:
            del launcher
            return _TwoDeviceSession(device, seen)

    targets = {"cuda:0": TWO_CARDS, "cuda:1": TWO_CARDS}
    ranked = [replace(job(size=n), definition=RANKED, target=TWO_CARDS) for n in range(1, 21)]
    made = FakePool(tuple(targets), config=BenchmarkConfig(), roots=(), threads=2, targets=targets)
    ended: list[object] = []
    work = threading.Thread(
        target=lambda: ended.extend(made.run([[each] for each in ranked], lambda _: None)),
        daemon=True,
    )

    work.start()
    work.join(60)
    made.close()

    assert len(ended) == 20
    assert set(seen) == {(True, True)}


def test_ranks_run_on_devices_of_one_model_their_own_first() -> None:
    targets = {"cuda:0": TWO_CARDS, "cuda:1": Target("cuda", "NVIDIA L4", 2), "cuda:2": TWO_CARDS}
    made = LocalPool(tuple(targets), config=BenchmarkConfig(), roots=(), threads=2, targets=targets)
    session = made.open_session(SimpleNamespace(), "cuda:2")  # type: ignore[arg-type]  # starts nothing

    assert session.devices_of(replace(job(), definition=RANKED)) == ("cuda:2", "cuda:0")
