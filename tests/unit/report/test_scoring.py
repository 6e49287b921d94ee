"""Authors by each score, from rows: who is compared with what, what counts, where ties are."""

from __future__ import annotations

import pytest

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.scores.names import parse_score
from flashinfer_bench.report.scores.scoring import ScoreLine, ScoreTable, score_tables
from flashinfer_bench.report.scores.times import GivenTime, GivenTimes
from flashinfer_bench.report.standing import standing

from .rows import baseline, row, rows

BASELINES = {"d1": ("base",)}
BASELINE = baseline("d1", w1=4.0, w2=9.0, w3=2.0)
ALICE = rows("a", "alice", "d1", w1=2.0, w2=10.0, w3=2.0)


def _tables(score: str, *every: TraceRow) -> tuple[ScoreTable, ...]:
    tallies = standing(every, lambda _: None).tallies["card"]
    return score_tables(tallies, BASELINES, parse_score(score), baseline_author="baseline")


def _line(score: str, author: str, *every: TraceRow) -> ScoreLine:
    (table,) = (each for each in _tables(score, *every) if each.against != "reference")
    return next(line for line in table.lines if line.author == author)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ("arithmetic", 1.3),
        ("geometric", 1.8 ** (1 / 3)),
        ("coverage", 1.8 ** (1 / 3)),
        ("win@1.0", 1 / 3),
        ("fast_p>1", 1 / 3),
        ("fast_p>=1", 2 / 3),
        ("fast_p>=0", 1.0),
        ("pass@1", 1.0),
        ("flashinfer-bench", 2 / 3),
    ],
)
def test_three_ratios_by_every_score(score: str, expected: float) -> None:
    assert _line(score, "alice", *BASELINE, *ALICE).score == pytest.approx(expected)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ("geometric", 1.8 ** (1 / 3)),
        ("win@1.0", 0.25),
        ("fast_p>=1", 0.5),
        ("fast_p>=0", 1.0),
        ("pass@1", 0.0),
    ],
)
def test_a_failure_beside_three_ratios(score: str, expected: float) -> None:
    failed = row(status="RUNTIME_ERROR", workload_uuid="w4")

    line = _line(score, "alice", *baseline("d1", w1=4.0, w2=9.0, w3=2.0, w4=1.0), *ALICE, failed)

    assert line.score == pytest.approx(expected)
    assert line.success_rate == 0.75


def test_whoever_covers_less_is_not_better_for_it() -> None:
    picky = rows("b", "bob", "d1", w1=2.0)

    geometric = [
        _line("geometric", name, *BASELINE, *ALICE, *picky).score for name in ("alice", "bob")
    ]
    coverage = [
        _line("coverage", name, *BASELINE, *ALICE, *picky).score for name in ("alice", "bob")
    ]

    assert geometric == pytest.approx([1.8 ** (1 / 3), 2.0])
    assert coverage == pytest.approx([1.8 ** (1 / 3), 2 ** (1 / 3)])


def test_an_author_wins_with_the_fastest_of_several_solutions() -> None:
    slow = rows("a2", "alice", "d1", w1=8.0, w2=3.0)

    assert _line("win@1.0", "alice", *BASELINE, *ALICE, *slow).score == pytest.approx(2 / 3)
    assert _line("fast_p>1", "alice", *BASELINE, *ALICE, *slow).score == pytest.approx(2 / 5)


def test_kernelbench_asks_whether_a_whole_solution_is_right_and_against_the_reference() -> None:
    half = [
        row(solution="b", author="bob", speedup=3.0),
        row(solution="b", author="bob", status="TIMEOUT", workload_uuid="w2"),
        row(solution="c", author="bob", speedup=3.0),
    ]

    (table,) = _tables("kernelbench", *half)

    assert table.against == "reference"
    assert table.lines[0].score == 0.5
    assert table.lines[0].by_threshold == {
        ">0": 0.5, ">0.5": 0.5, ">0.8": 0.5, ">1": 0.5, ">1.5": 0.5, ">2": 0.5,
    }  # fmt: skip


def test_pass_at_k_needs_k_solutions_and_says_so() -> None:
    several = [row(solution=name, status=how) for name, how in (("a", "PASSED"), ("b", "TIMEOUT"))]

    (two,) = _tables("pass@2", *several)
    (three,) = _tables("pass@3", *several)

    assert two.lines[0].score == 1.0
    assert three.unscored == {"alice": "fewer than 3 solutions of d1"}


def test_the_speed_of_light_is_the_measure_where_it_was_recorded() -> None:
    fast = [row(sol_fraction=0.8, workload_uuid="w1"), row(status="TIMEOUT", workload_uuid="w2")]
    unknown = row(author="bob", solution="b")

    (table,) = _tables("sol", *fast, unknown)

    assert [(line.author, line.score) for line in table.lines] == [("alice", pytest.approx(0.4))]
    assert table.unscored == {"bob": "no speed of light was recorded"}


def test_half_of_the_gap_is_closed_by_who_is_as_fast_as_the_reference() -> None:
    even = row(latency_ms=2.0, reference_latency_ms=2.0, speedup=1.0, sol_fraction=0.1)

    (table,) = _tables("sol-gap", even)

    assert table.lines[0].score == pytest.approx(0.5)


def test_the_gap_is_as_uncertain_as_what_it_is_compared_with() -> None:
    known = {"latency_ms": 1.0, "speedup": 2.0, "sol_fraction": 0.5}
    surely = row(**known, latency_interval_ms=(1.0, 1.0), speedup_interval=(1.5, 2.5))

    (table,) = _tables("sol-gap", surely)

    assert table.lines[0].score == pytest.approx(1 / (1 + 0.5 / 1.5))
    assert table.lines[0].interval == pytest.approx((1 / (1 + 0.5 / 1.0), 1 / (1 + 0.5 / 2.0)))


def test_who_passed_nothing_is_told_so() -> None:
    (table,) = _tables("sol", row(status="TIMEOUT"))

    assert table.unscored == {"alice": "nothing passed"}


def test_overlapping_intervals_tie_and_the_others_are_ranked() -> None:
    every = [
        row(author=name, solution=name, speedup=speedup, speedup_interval=interval)
        for name, speedup, interval in (
            ("ann", 2.0, (1.9, 2.1)),
            ("bob", 1.95, (1.85, 2.05)),
            ("cat", 1.0, (0.9, 1.1)),
        )
    ]

    (table,) = _tables("geometric", *every)

    assert [(line.place, line.author) for line in table.lines] == [
        ("1-2", "ann"), ("1-2", "bob"), ("3", "cat"),
    ]  # fmt: skip


def test_a_share_reaches_from_what_is_certain_to_what_may_be() -> None:
    every = [
        row(workload_uuid="w1", speedup=1.5, speedup_interval=(1.4, 1.6)),
        row(workload_uuid="w2", speedup=1.01, speedup_interval=(0.95, 1.1)),
    ]

    (table,) = _tables("fast_p>1", *every)

    assert (table.lines[0].score, table.lines[0].interval) == (1.0, (0.5, 1.0))


@pytest.mark.parametrize(
    "text", ["", "fast_p", "fast_p=1", "fast_p<1", "win@", "pass@0", "pass@1.5", "mean"]
)
def test_an_unknown_score_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(UsageError, match="is no score: write arithmetic, geometric"):
        parse_score(text)


def test_the_arithmetic_score_is_the_ranking_everywhere() -> None:
    failed = row(status="RUNTIME_ERROR", workload_uuid="w9")  # where the baseline was not timed

    (table,) = _tables("arithmetic", *BASELINE, *ALICE, failed)

    assert [(line.author, line.score, line.workloads) for line in table.lines] == [
        ("alice", 0.0, 3)
    ]


def test_a_failure_after_a_pass_is_a_failure() -> None:
    early, late = "2026-01-02T10:00:00+00:00", "2026-01-03T10:00:00+00:00"
    broken = [
        row(workload_uuid="w1", solution_hash="x", timestamp=early),
        row(workload_uuid="w1", solution_hash="x", timestamp=late, status="RUNTIME_ERROR"),
        row(workload_uuid="w2", solution_hash="x", timestamp=early),
    ]
    mended = [row(author="bob", solution="b", timestamp=late)]
    mended += [row(author="bob", solution="b", timestamp=early, status="TIMEOUT")]

    found = {
        line.author: (line.score, line.success_rate)
        for table in _tables("fast_p>1", *broken, *mended)
        for line in table.lines
    }

    assert found == {"alice": (0.5, 0.5), "bob": (1.0, 1.0)}


def test_a_mistyped_score_brings_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'geometric'"):
        parse_score("geometrc")


def _by_given_times(*every: TraceRow, device: str = "card", at_sol: float = 1.0) -> ScoreTable:
    times = [
        GivenTime(definition="d1", workload=uuid, baseline_ms=3.0, sol_ms=at_sol)
        for uuid in ("w1", "w2")
    ]
    given = GivenTimes(device=device, baseline="eager", bound="roofline", times=times)
    tallies = standing(every, lambda _: None).tallies["card"]
    name = parse_score("sol-execbench")
    (table,) = score_tables(
        tallies, BASELINES, name, baseline_author="baseline", times=given, hardware="card"
    )
    return table


def test_given_times_score_by_how_much_of_their_gap_is_closed() -> None:
    solution = rows("a", "alice", "d1", w1=3.0, w2=1.0, w3=9.0)  # nobody gave times for w3

    (line,) = _by_given_times(*solution).lines

    assert line.score == pytest.approx((0.5 + 1.0) / 2)
    assert line.workloads == 2


def test_a_failure_scores_nothing_against_given_times_and_intervals_turn_round() -> None:
    sure = row(latency_ms=3.0, latency_interval_ms=(1.0, 5.0))
    failed = row(status="RUNTIME_ERROR", workload_uuid="w2")

    (line,) = _by_given_times(sure, failed).lines

    assert line.score == pytest.approx(0.25)
    assert line.interval == pytest.approx((0.25 - (0.5 - 1 / 3) / 2, 0.5))


def test_who_is_faster_than_light_is_a_finding_and_no_score() -> None:
    table = _by_given_times(*rows("a", "alice", "d1", w1=0.5))

    assert not table.lines
    assert "below the speed of light, 1 ms" in table.unscored["alice"]


def test_times_of_one_device_say_nothing_of_another() -> None:
    table = _by_given_times(*rows("a", "alice", "d1", w1=3.0), device="NVIDIA B200")

    assert table.unscored == {"alice": "the times are of NVIDIA B200"}


def test_a_baseline_at_the_speed_of_light_leaves_only_it() -> None:
    table = _by_given_times(*rows("a", "alice", "d1", w1=3.0, w2=4.0), at_sol=3.0)

    assert table.lines[0].score == pytest.approx(0.5)
