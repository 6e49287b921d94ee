"""A validation as text: totals first, then what was found, each remedy once."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashinfer_bench.data import rules
from flashinfer_bench.data.rules import DatasetReport, Finding, Level, ReportConfig
from flashinfer_bench.errors import DatasetNotFoundError
from flashinfer_bench.report.validation import render_report, render_text_report


def report(*findings: Finding, names: tuple[str, ...] = ("d1", "d2")) -> DatasetReport:
    config = ReportConfig(
        dataset="/d", checks=["layout", "workload"], disable_gpu=False, op_types=[], definitions=[]
    )
    return rules.assemble(config, names, findings)


def finding(message: str, *, definition: str | None = "d1", line: int | None = 3) -> Finding:
    return Finding(
        code="WKL-07",
        level=Level.ERROR,
        message=message,
        remedy="mend it",
        path="workloads/w.jsonl",
        line=line,
        definition=definition,
    )


def test_a_finding_is_shown_with_its_place_and_what_to_do() -> None:
    text = render_text_report(report(finding("axis 'n' has length 0")))

    assert text == (
        "/d: error\n"
        "  2 definitions; 1 error, 0 warnings, 0 notes\n"
        "  checked: layout, workload\n"
        "\n"
        "d1: error\n"
        "  workload\n"
        "    error WKL-07 workloads/w.jsonl:3: axis 'n' has length 0\n"
        "      → mend it\n"
        "\n"
        "Nothing to say about\n"
        "  d2\n"
    )


def test_a_remedy_is_given_once_for_many_findings() -> None:
    text = render_text_report(report(*(finding(f"fault {number}") for number in range(14))))

    assert text.count("→ mend it") == 1
    assert "fault 9" in text
    assert "fault 10" not in text
    assert "… and 4 more of WKL-07" in text


def test_definitions_of_which_the_same_is_said_are_named_together() -> None:
    both = [
        Finding(code="WKL-01", level=Level.WARNING, message="no workloads", definition=name)
        for name in ("d1", "d2")
    ]

    text = render_text_report(report(*both))

    assert "d1, d2: warning\n  workload\n    warning WKL-01 no workloads\n" in text


def test_what_other_people_wrote_moves_no_cursor() -> None:
    assert "\x1b" not in render_text_report(report(finding("\x1b[2Jgone")))


def test_json_becomes_the_same_text_again(tmp_path: Path) -> None:
    told = report(finding("axis 'n' has length 0"))
    (tmp_path / "report.json").write_text(told.to_json())

    text = render_report(tmp_path / "report.json", tmp_path / "report.txt")

    assert text == render_text_report(told) == (tmp_path / "report.txt").read_text()


def test_a_missing_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match=r"gone\.json"):
        render_report(tmp_path / "gone.json")
