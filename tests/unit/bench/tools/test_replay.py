from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flashinfer_bench.bench.config import BenchmarkConfig, EvalConfig
from flashinfer_bench.bench.outcomes import NotBuilt, TimedOut
from flashinfer_bench.bench.plan import jobs_for
from flashinfer_bench.bench.record import record
from flashinfer_bench.bench.tools.replay import recorded_device, replay_of
from flashinfer_bench.cli.measure.replay import _has_same_calls
from flashinfer_bench.data import Trace
from flashinfer_bench.data.workload import WorkloadTolerance
from tests.flow.kernels import INCREMENT
from tests.unit.bench.values import CPU, RUN, finished, job, passed

SETTINGS: list[dict[str, Any]] = [
    {},
    {"iterations": 7, "num_trials": 1, "warmup_runs": 0},
    {"atol": 1e-5, "required_matched_ratio": 0.9},
    {"until_interval": 0.02, "time_budget_seconds": 5.0},
    {"audit": False},
    {"strict": True},
    {"audit": False, "strict": True, "profile_baseline": False},
    {"definition_config": {"increment": EvalConfig(max_error_cap=3.0, extra={"k": 4})}},
]
DEFAULT = BenchmarkConfig.default()


def recorded(config: BenchmarkConfig) -> Trace:
    made = record(finished(passed(), job(config=config)), RUN)
    assert made is not None
    return made


def with_provenance(trace: Trace, **changes: Any) -> Trace:
    provenance = trace.evaluation.provenance.model_copy(update=changes)
    evaluation = trace.evaluation.model_copy(update={"provenance": provenance})
    return trace.model_copy(update={"evaluation": evaluation})


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_are_found_again_whatever_they_were(settings: dict[str, Any]) -> None:
    config = BenchmarkConfig(**settings)
    trace = recorded(config)

    found = replay_of(trace, INCREMENT, job().solution, replace(CPU, threads=9))

    assert found.has_recorded_settings
    assert found.config.resolve_eval_config(INCREMENT) == config.resolve_eval_config(INCREMENT)
    assert (found.config.audit, found.config.strict) == (config.audit, config.strict)
    assert found.config.threads == RUN.threads


def test_settings_that_were_not_recorded_are_the_default_ones_and_that_is_known() -> None:
    trace = with_provenance(recorded(BenchmarkConfig(iterations=7)), settings=None)

    found = replay_of(trace, INCREMENT, job().solution, CPU)

    assert not found.has_recorded_settings
    assert found.config.resolve_eval_config(INCREMENT) == DEFAULT.resolve_eval_config(INCREMENT)


def test_an_old_trace_made_with_the_default_settings_is_known_for_one() -> None:
    trace = with_provenance(recorded(BenchmarkConfig.default()), settings=None)

    assert replay_of(trace, INCREMENT, job().solution, CPU).has_recorded_settings


def test_a_trace_says_what_kind_of_device_it_was_made_on() -> None:
    evaluation = recorded(BenchmarkConfig()).evaluation
    card = evaluation.environment.device.model_copy(update={"uuid": "GPU-1"})
    elsewhere = evaluation.environment.model_copy(update={"device": card})
    silent = evaluation.environment.model_copy(update={"device": None})

    assert recorded_device(evaluation) == "cpu"
    assert recorded_device(evaluation.model_copy(update={"environment": elsewhere})) == "cuda:0"
    assert recorded_device(evaluation.model_copy(update={"environment": silent})) == "auto"


@pytest.mark.parametrize("config", [BenchmarkConfig(), BenchmarkConfig(rtol=1e-2)])
def test_a_workloads_tolerance_is_replayed_as_it_was_in_force(config: BenchmarkConfig) -> None:
    solution = job().solution
    strict = job().workload.model_copy(update={"tolerance": WorkloadTolerance(rtol=1e-4)})
    (planned,) = jobs_for(INCREMENT, solution, [strict], config, CPU)
    made = record(finished(passed(), planned), RUN)
    assert made is not None

    found = replay_of(made, INCREMENT, solution, replace(CPU, threads=9))

    assert found.has_recorded_settings
    assert found.config.resolve_eval_config(INCREMENT, strict).rtol == planned.config.rtol


@pytest.mark.parametrize(
    ("outcome", "own", "limits"),
    [
        (TimedOut("the kernel did not return within 2.5 s (--timeout)\n"), {}, (2.5, 300)),
        (
            TimedOut("the kernel did not return within 2 s (--timeout)"),
            {"timeout_seconds": 9},
            (9, 300),
        ),
        (NotBuilt("the build took longer than 7 s (--build-timeout)"), {}, (300, 7)),
        (passed(), {}, (300, 300)),
    ],
    ids=["its own limit", "one that is typed", "of the build", "of none"],
)
def test_the_limit_that_ended_a_job_is_that_of_its_replay(
    outcome: Any, own: dict[str, Any], limits: tuple[float, float]
) -> None:
    trace = record(finished(outcome, job()), RUN)
    assert trace is not None

    found = replay_of(trace, INCREMENT, job().solution, CPU, own).config

    assert (found.timeout_seconds, found.build_timeout_seconds) == limits


def test_calls_on_inputs_that_a_card_rewrote_are_not_those_on_inputs_as_they_were_drawn() -> None:
    as_drawn = recorded(BenchmarkConfig())
    rewritten = with_provenance(as_drawn, late_inputs=True)
    now = as_drawn.evaluation
    assert _has_same_calls(now, now)
    assert not _has_same_calls(rewritten.evaluation, now)
    assert _has_same_calls(rewritten.evaluation, rewritten.evaluation)
