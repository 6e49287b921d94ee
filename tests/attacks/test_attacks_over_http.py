"""Attacks that are submitted to a server end as they do on one's own machine.

A real server with its own worker and the suite's dataset; what is played, compared and expected is the suite's own.
Left out is what a service does not offer: rounds of `ab`, and a seed of one's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from flashinfer_bench.attacks.running import QUICK, Setting, _play, _Seen, victims_with
from flashinfer_bench.attacks.scenarios import Stage
from flashinfer_bench.attacks.suite import Entry, entries
from flashinfer_bench.bench.benchmark import Benchmark, Step
from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.jobs import Target
from flashinfer_bench.bench.outcomes import DatasetFault, Skipped
from flashinfer_bench.bench.plan import Plan, Selection
from flashinfer_bench.serve.client import ServiceClient
from tests.flow.service_processes import Place, place

pytest.importorskip("uvicorn", reason="the service's extra is not installed")
pytest.importorskip("fastapi", reason="the service's extra is not installed")
pytest.importorskip("torch", reason="running solutions needs torch")

SETTINGS = {**QUICK, "threads": 1}
SUITE = [
    each
    for each in entries()
    if "cpu" in each.devices and each.scenario not in {"rounds", "same seed"}
]
FEW = frozenset(
    (
        "replay_by_call_count",
        "clock_patched_now",
        "theft_forged_answer",
        "wrong_one_call_of_three",
        "plays_after_a_kill",
        "workloads_early_in_the_second",
        "allowances_early_in_clock",
        "threads_inside",
    )
)
"""One of each family."""


@dataclass
class AtAServer:
    """Plans as a benchmark does, and has a server run it."""

    planning: Benchmark
    client: ServiceClient

    @property
    def target(self) -> Target:
        return self.planning.target

    def plan(self, selection: Selection) -> Plan:
        return self.planning.plan(selection=selection)

    def run(self, planned: Plan) -> Iterator[Step]:
        jobs = {job.workload.uuid: job for job in planned.jobs}
        task = self.client.submit(planned.jobs[0].solution, workloads=list(jobs), fresh=True)
        state = self.client.wait(task.task_id, most_s=300)
        for trace in state.traces or ():
            yield Step(jobs[trace.workload.uuid], None, trace)  # type: ignore[arg-type]
        for each in state.left_out:
            why, _, rest = each.reason.partition(": ")
            is_skipped = why == "this machine cannot run it"
            outcome = Skipped(rest) if is_skipped else DatasetFault(each.reason)
            yield Step(jobs[each.workload], outcome, None)  # type: ignore[arg-type]
        if state.outcome != "evaluated" and not state.left_out:
            raise AssertionError(f"{state.outcome}: {state.error}")

    def close(self) -> None:
        """Its workers are the server's."""


@dataclass
class Served:
    """A server of the suite's dataset."""

    stage: Stage
    place: Place


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("attacked")
    settings = folder / "settings.yaml"
    settings.write_text(yaml.safe_dump(SETTINGS))
    config = BenchmarkConfig.default(**SETTINGS)
    with victims_with(SUITE) as dataset, Benchmark(dataset, config, device="cpu") as bench:
        options = ("--config", str(settings), "--device", "cpu")
        with place(folder, given=dataset.roots[0], settings=options) as at:
            at.serve()
            with at.client() as client:
                stage = Stage(AtAServer(bench, client), dataset, config)  # type: ignore[arg-type]
                yield Served(stage, at)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(each, id=each.name, marks=[] if each.name in FEW else [pytest.mark.full])
        for each in SUITE
    ],
)
def test_an_attack_that_is_submitted_ends_as_documented(served: Served, entry: Entry) -> None:
    row = _play(served.stage, entry, Setting(device="cpu"), _Seen(sandbox="off"))

    if row.not_run_because is not None:
        pytest.skip(row.not_run_because)
    assert row.as_documented, f"{row.got}, expected {row.expected}: {row.evidence}"


def test_the_server_is_well_after_all_that(served: Served) -> None:
    with served.place.client() as client:
        health = client.health()

    assert (health.status, health.queue_size) == ("ok", 0)
    assert [worker.healthy for worker in health.workers] == [True]
