from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.page.drawing import (
    fast_plot,
    latency_plot,
    sample_bars,
    speedup_bars,
)
from flashinfer_bench.report.standing import Standing, standing
from flashinfer_bench.report.visualize import DefinitionChart, charts

from .rows import row

Samples = Mapping[str, Mapping[str, Sequence[float]]]


def drawn(*rows: TraceRow, samples: Samples | None = None) -> tuple[DefinitionChart, Standing]:
    found = standing(rows, lambda _: None)
    return charts(found, lambda _, __: samples or {})[0].definitions[0], found


def sized(solution: str, n: int, latency_ms: float, **more: object) -> TraceRow:
    known = {"workload_uuid": f"w{n}", "axes": {"n": n}, "speedup": 2.0 / latency_ms}
    return row(solution=solution, latency_ms=latency_ms, **(known | more))


def test_bars_are_as_long_as_speedups_with_their_intervals() -> None:
    chart, _ = drawn(
        row(solution="a", speedup=2.0, speedup_interval=(1.5, 2.5)),
        row(solution="b", speedup=1.0),
    )

    found = speedup_bars(chart, "a")

    assert found is not None
    assert found.one is not None
    first, second = found.bars
    assert (first.name, first.is_best, first.text) == ("a", True, "2.0x (1.5, 2.5)")
    assert first.length == pytest.approx(2 * found.one, abs=0.02)
    assert (first.low, first.high) == pytest.approx((1.5 * found.one, 2.5 * found.one), abs=0.02)
    assert (second.length, second.has_interval) == (found.one, False)
    assert found.numbers.rows[0] == ("a", "2.0x (1.5, 2.5)", "1")


def test_failures_stand_beside_the_bar() -> None:
    chart, _ = drawn(row(), row(status="TIMEOUT", workload_uuid="w2"))

    found = speedup_bars(chart, None)

    assert found is not None
    assert found.bars[0].text == "2.00x, 1 failed"


def test_lines_run_over_sizes_and_the_reference_is_a_line_of_its_own() -> None:
    chart, _ = drawn(sized("a", 1, 0.5), sized("a", 64, 1.0), sized("b", 64, 2.0))

    found = latency_plot(chart, "a")

    assert found is not None
    by_name = {each.name: each for each in found.series}
    assert [len(by_name[name].marks) for name in ("a", "b", "reference")] == [2, 1, 2]
    assert by_name["a"].marks[1].text == "a, n=64: 1.00 ms"
    assert by_name["a"].marks[0].y < by_name["a"].marks[1].y < by_name["b"].marks[0].y
    assert found.x_name == "n"
    assert found.numbers.rows == (("n=1", "500 µs", "-"), ("n=64", "1.00 ms", "2.00 ms"))


@pytest.mark.parametrize("largest", [8, 64, 300_000, 700_000_000, 40_000_000_000])
def test_a_tick_under_the_sizes_says_the_size_that_it_stands_at(largest: int) -> None:
    chart, _ = drawn(sized("a", 1, 1.0), sized("a", largest, 2.0))

    found = latency_plot(chart, None)

    assert found is not None
    units = {"M": 1_000_000, "G": 1_000_000_000}
    sizes = [int(t.text.rstrip("MG")) * units.get(t.text[-1], 1) for t in found.x_ticks]
    first, last = found.series[0].marks
    for size, tick in zip(sizes, found.x_ticks, strict=True):
        share = math.log(size) / math.log(largest)
        assert tick.at == pytest.approx(first.x + share * (last.x - first.x), abs=0.02)
    assert len(set(sizes)) == len(sizes) > 1


def test_every_chart_says_in_a_sentence_what_it_shows() -> None:
    chart, found = drawn(
        sized("a", 1, 0.5, trace_id="t1", reference_latency_ms=2.0),
        sized("a", 64, 1.0, trace_id="t2", reference_latency_ms=2.0),
        sized("b", 64, 4.0, trace_id="t3", reference_latency_ms=2.0),
        samples={"t2": {"solution": [1.0, 1.0, 1.2]}, "t3": {"solution": [4.0]}},
    )
    tallies = found.tallies["card"]["d1"]

    figures = (
        speedup_bars(chart, "a"),
        latency_plot(chart, "a"),
        fast_plot(chart, tallies, "a"),
        fast_plot(chart, tallies, "b"),
        sample_bars(chart, "a"),
    )

    assert [each.finding for each in figures if each is not None] == [
        "The highest: a is 2.83x; the lowest: b is 0.50x.",
        "On n=64 a takes the least: 1.00 ms, the reference 2.00 ms.",
        "a is right and at least as fast as the reference on 100% of 2 workloads.",
        "b is right and at least as fast as the reference on 0% of 1 workload.",
        "a has the lowest median: 1.00 ms.",
    ]


def test_one_size_is_no_curve() -> None:
    chart, _ = drawn(row())

    assert latency_plot(chart, None) is None


def test_fast_p_counts_what_is_right_among_what_was_attempted() -> None:
    chart, found = drawn(
        *(row(workload_uuid=f"w{n}", speedup=ratio) for n, ratio in enumerate((2.0, 0.9, 1.0))),
        row(workload_uuid="w9", status="RUNTIME_ERROR"),
    )

    plot = fast_plot(chart, found.tallies["card"]["d1"], "a")

    assert plot is not None
    assert plot.numbers.heads[2] == "≥ 1x"
    assert plot.numbers.rows == (("a", "75%", "50%", "25%", "25%", "0%", "0%", "4"),)
    heights = [y for _, y in plot.series[0].line]
    assert heights[0] == 75.0
    assert heights[-1] == 0.0
    assert heights == sorted(heights, reverse=True)


def test_samples_are_drawn_of_the_workload_most_solutions_have_some_of() -> None:
    rows = [sized("a", 8, 1.0, trace_id="t1"), sized("a", 64, 1.0, trace_id="t2")]
    chart, _ = drawn(
        *rows,
        sized("b", 8, 1.0, trace_id="t3"),
        samples={
            "t1": {"solution": [1.0, 1.1, 1.2, 9.0]},
            "t2": {"solution": [5.0]},
            "t3": {"solution": [2.0, 2.0]},
        },
    )

    found = sample_bars(chart, None)

    assert found is not None
    assert found.title == "Distribution of samples, n=8"
    assert found.numbers.rows[0] == (
        "a",
        "4",
        "1.00 ms",
        "1.02 ms",
        "1.15 ms",
        "7.05 ms",
        "9.00 ms",
    )
    assert {max(bar.cells) for bar in found.bars} == {100.0}


def test_no_samples_no_distribution() -> None:
    chart, _ = drawn(row())

    assert sample_bars(chart, None) is None


def test_more_solutions_than_can_be_told_apart_are_in_the_table_only() -> None:
    chart, _ = drawn(*(sized(f"s{i}", n, 1.0 + i) for i in range(15) for n in (1, 2)))

    found = latency_plot(chart, None)

    assert found is not None
    assert len(found.series) == 12 + 1
    assert len(found.numbers.heads) == 15 + 1
    assert found.remark == "The 12 fastest of 15 are drawn."
