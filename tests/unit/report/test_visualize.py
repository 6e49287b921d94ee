"""Charts of characters fit where they are asked to, and say what they leave out."""

from __future__ import annotations

import pytest

from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.standing import LeftOut, standing
from flashinfer_bench.report.visualize import charts, visualize_page
from flashinfer_bench.text.tables import columns_of, page_text

from .rows import row


def drawn(
    *rows: TraceRow, width: int = 80, samples: tuple[float, ...] = (), **options: bool
) -> str:
    kept = {each.trace_id or "": {"solution": samples} for each in rows if samples}
    groups = charts(standing(rows, lambda _: None), lambda _name, _ids: kept)
    return page_text(visualize_page(groups, LeftOut(), width=width, **options))


def sized(n: int, **changes: object) -> TraceRow:
    return row(
        **{"workload_uuid": f"w{n}", "axes": {"n": n, "heads": 32}, "latency_ms": n} | changes
    )


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["a", "rmsnorm_h4096_some_very_long_name", "規範化" * 6])
def test_charts_are_as_wide_as_asked(name: str, width: int) -> None:
    rows = [
        sized(4**power, solution=name, speedup_interval=(1.8, 2.3), trace_id=f"t{power}")
        for power in range(11)
    ]
    failed = row(solution="b", status="INCORRECT_NUMERICAL", violation_count=1)

    text = drawn(*rows, failed, width=width, samples=tuple(range(1, 200)))

    assert max(map(columns_of, text.splitlines())) <= width


def test_sizes_that_do_not_fit_are_counted_and_both_ends_are_drawn() -> None:
    text = drawn(*(sized(n) for n in range(1, 40)), width=60)
    labels = text.splitlines()[-1].split()

    assert "against n (logarithmic, R the reference; 8 of 39 sizes)" in " ".join(text.split())
    assert (labels[0], labels[-1]) == ("1", "39")


def test_a_million_fold_range_has_ticks_at_both_ends() -> None:
    text = drawn(sized(1, latency_ms=1e-3), sized(2, latency_ms=1e3))

    assert "1.00 s │" in text
    assert "1.00 µs │" in text


def test_workloads_of_one_size_are_one_point() -> None:
    alike = [sized(2, workload_uuid=uuid, latency_ms=ms) for uuid, ms in (("x", 4.0), ("y", 8.0))]

    text = drawn(sized(1), *alike, sized(3, latency_ms=6.0))
    (height,) = (line for line in text.splitlines() if line.startswith("  6.00 ms"))

    assert height.split("│")[1].split() == ["a", "a"]


def test_one_sample_is_drawn_too() -> None:
    assert "samples in the order they were taken (1 sample at most)" in drawn(
        row(trace_id="t"), samples=(1.0,)
    )


def test_ascii_is_ascii() -> None:
    text = drawn(sized(1, latency_ms=1e-3), sized(2), samples=(1e-3, 2e-3), is_ascii=True)

    assert text.isascii()
    assert "1.00 us |" in text


def test_only_failures_are_drawn_as_such() -> None:
    assert "none passed, 1 failed" in drawn(row(status="TIMEOUT"))
