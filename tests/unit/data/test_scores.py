from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.data import Performance, SpeedupMetrics, Trace, TraceSet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = "scaled_rowsum_n256"
BASELINE = {"w1": 4.0, "w2": 9.0, "w3": 2.0}
RATIOS = {"w1": 2.0, "w2": 10.0, "w3": 2.0}


def timed(build: Any, solution: str, latencies: Mapping[str, float], **changes: Any) -> list[Trace]:
    return [
        build.trace(solution, uuid=uuid, latency_ms=latency, **changes)
        for uuid, latency in latencies.items()
    ]


def one_definition(build: Any, *traces: Trace) -> TraceSet:
    return TraceSet(
        definitions={NAME: build.definition()},
        solutions={NAME: [build.solution("base", author="baseline"), build.solution("a")]},
        traces={NAME: [*timed(build, "base", BASELINE), *traces]},
    )


def test_a_score_is_the_mean_of_ratios(build: Any) -> None:
    score = one_definition(build, *timed(build, "a", RATIOS)).get_solution_score("a")

    assert score == SpeedupMetrics(
        avg_speedup=pytest.approx(1.3),
        definitions=1,
        workloads=3,
        success_rate=1.0,
        win_rate=pytest.approx(1 / 3),
    )


def test_any_failure_makes_the_score_zero(build: Any) -> None:
    failed = build.trace("a", uuid="elsewhere", status="RUNTIME_ERROR")

    score = one_definition(build, *timed(build, "a", RATIOS), failed).get_solution_score("a")

    assert score is not None
    assert (score.avg_speedup, score.win_rate, score.success_rate) == (0, 0, 0)
    assert score.workloads == 3


def test_the_lowest_latency_of_several_counts(build: Any) -> None:
    traces = timed(build, "a", {"w1": 3.0}) + timed(build, "a", {"w1": 2.0})

    score = one_definition(build, *traces).get_solution_score("a")

    assert score is not None
    assert score.avg_speedup == 2.0


def test_missing_workloads_are_not_penalised(build: Any) -> None:
    score = one_definition(build, *timed(build, "a", {"w1": 2.0})).get_solution_score("a")

    assert score is not None
    assert (score.avg_speedup, score.workloads) == (2.0, 1)


def test_only_workloads_the_baseline_passed_count(build: Any) -> None:
    traces = timed(build, "a", {"w1": 2.0, "w9": 1.0})

    score = one_definition(build, *traces).get_solution_score("a")

    assert score is not None
    assert score.workloads == 1


def test_there_is_no_score_where_nothing_compares(build: Any) -> None:
    trace_set = one_definition(build, *timed(build, "a", {"w9": 2.0}))

    assert trace_set.get_solution_score("a") is None
    assert trace_set.get_solution_score("base") is None
    assert trace_set.get_solution_score("nobody") is None
    assert trace_set.get_author_score("nobody") is None


def test_times_of_interpreted_kernels_do_not_count(build: Any) -> None:
    interpreted = build.provenance(interpreted=True)

    trace_set = one_definition(build, *timed(build, "a", RATIOS, provenance=interpreted))

    assert trace_set.get_solution_score("a") is None
    assert trace_set.summary().passed == 6


def test_passing_without_a_latency_is_an_error(build: Any) -> None:
    trace_set = one_definition(build, *timed(build, "a", {"w1": 0.0}))

    with pytest.raises(ValueError, match="a on workload w1 has no latency"):
        trace_set.get_solution_score("a")
    assert "no latency" in trace_set.summary().unranked[NAME]


@pytest.mark.parametrize("baselines", [0, 2])
def test_a_baseline_is_exactly_one_solution(build: Any, baselines: int) -> None:
    solutions = [build.solution(f"base{i}", author="baseline") for i in range(baselines)]
    trace_set = TraceSet(
        definitions={NAME: build.definition()},
        solutions={NAME: [build.solution("a"), *solutions]},
        traces={NAME: timed(build, "a", RATIOS)},
    )

    for ask in (
        lambda: trace_set.get_solution_score("a"),
        lambda: trace_set.get_author_score("alice"),
        trace_set.rank_authors,
    ):
        with pytest.raises(ValueError, match="by 'baseline'"):
            ask()


def two_definitions(build: Any) -> TraceSet:
    def solution(name: str, author: str, definition: str) -> Any:
        return build.solution(name, author=author, definition=definition)

    return TraceSet(
        definitions={
            "d1": build.definition("d1"),
            "d2": build.definition("d2", op_type="gemm"),
        },
        solutions={
            "d1": [
                solution("b1", "baseline", "d1"),
                solution("a", "alice", "d1"),
                solution("a_slow", "alice", "d1"),
            ],
            "d2": [
                solution("b2", "baseline", "d2"),
                solution("c", "alice", "d2"),
                solution("z", "zoe", "d2"),
                solution("bo", "bob", "d2"),
            ],
        },
        traces={
            "d1": [
                *timed(build, "b1", BASELINE, definition="d1"),
                *timed(build, "a", RATIOS, definition="d1"),
                *timed(build, "a_slow", {"w1": 5.0}, definition="d1"),
            ],
            "d2": [
                *timed(build, "b2", {"w1": 3.0}, definition="d2"),
                *timed(build, "c", {"w1": 1.0}, definition="d2"),
                *timed(build, "z", {"w1": 1.0}, definition="d2"),
                *timed(build, "bo", {"w1": 1.0}, definition="d2"),
            ],
        },
    )


def test_an_author_s_score_averages_the_best_of_each_definition(build: Any) -> None:
    score = two_definitions(build).get_author_score("alice")

    assert score is not None
    assert score.avg_speedup == pytest.approx(2.15)
    assert (score.definitions, score.workloads) == (2, 4)
    assert score.best_solutions == {"d1": "a", "d2": "c"}


def test_authors_rank_by_speedup_then_name(build: Any) -> None:
    trace_set = two_definitions(build)

    assert [author for author, _ in trace_set.rank_authors()] == ["bob", "zoe", "alice"]
    assert [author for author, _ in trace_set.rank_authors(op_type="gemm")] == [
        "alice",
        "bob",
        "zoe",
    ]
    assert [author for author, _ in trace_set.rank_authors(definition_name="d1")] == ["alice"]


def test_a_scope_is_one_of_two_and_known(build: Any) -> None:
    trace_set = two_definitions(build)

    for ask in (trace_set.rank_authors, lambda **scope: trace_set.get_author_score("a", **scope)):
        with pytest.raises(KeyError, match="d3"):
            ask(definition_name="d3")
        with pytest.raises(ValueError, match="not both"):
            ask(definition_name="d1", op_type="gemm")


def test_a_summary_counts_everything_and_ranks_the_scope(build: Any) -> None:
    trace_set = two_definitions(build)
    trace_set.traces["d1"].append(build.trace("a_slow", definition="d1", status="TIMEOUT"))

    whole = trace_set.summary()
    scoped = trace_set.summary(op_type="gemm")

    assert (whole.total, whole.passed, whole.failed) == (12, 11, 1)
    assert whole.rankings == trace_set.rank_authors()
    assert (scoped.total, scoped.rankings) == (12, trace_set.rank_authors(op_type="gemm"))
    assert whole.unranked == {}


def test_a_summary_lists_what_it_cannot_rank_and_never_raises(build: Any) -> None:
    trace_set = two_definitions(build)
    trace_set.solutions["d1"].append(build.solution("b1_again", author="baseline", definition="d1"))
    trace_set.solutions["d2"].pop(0)

    summary = trace_set.summary()
    unknown = trace_set.summary(definition_name="d3", op_type="gemm")

    assert summary.rankings == []
    assert summary.unranked == {
        "d1": "d1 has 2 solutions by 'baseline': b1, b1_again",
        "d2": "d2 has no solution by 'baseline'",
    }
    assert unknown.unranked == {"d3": "no such definition"}


def test_an_empty_summary_is_zeros() -> None:
    summary = TraceSet().summary()

    assert (summary.total, summary.rankings, str(summary)) == (
        0,
        [],
        "0 traces: 0 passed, 0 failed",
    )


def test_a_summary_prints_as_an_aligned_table(build: Any) -> None:
    trace_set = two_definitions(build)
    trace_set.definitions["d3"] = build.definition("d3")
    trace_set.solutions["d3"] = [build.solution("x", definition="d3")]

    assert str(trace_set.summary()).splitlines() == [
        "11 traces: 11 passed, 0 failed",
        "",
        "rank  author  avg speedup  win rate  success rate  definitions  workloads",
        "   1  bob           3.00x      100%          100%            1          1",
        "   2  zoe           3.00x      100%          100%            1          1",
        "   3  alice         2.15x       67%          100%            2          4",
        "",
        "not ranked:",
        "  d3: d3 has no solution by 'baseline'",
    ]


def test_scores_from_files_equal_scores_from_memory(build: Any, tmp_path: Path) -> None:
    traces = timed(build, "reference_rowsum", BASELINE) + timed(build, "alice_rowsum_v1", RATIOS)
    trace_set = TraceSet.from_path(build.dataset(tmp_path, *traces))

    unparsed = trace_set.summary()
    trace_set.traces.values()

    assert trace_set.summary() == unparsed
    assert unparsed.rankings[0][1].avg_speedup == pytest.approx(1.3)


def test_a_performance_without_speedup_still_scores(build: Any) -> None:
    trace = build.trace("a", uuid="w1", latency_ms=2.0, speedup=None)

    score = one_definition(build, trace).get_solution_score("a")

    assert trace.evaluation.performance == Performance(latency_ms=2.0)
    assert score is not None
    assert score.avg_speedup == 2.0
