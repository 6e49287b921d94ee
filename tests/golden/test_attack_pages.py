"""What `attack-test` shows, from fixed rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flashinfer_bench.attacks.command import attack_line, attacks_page
from flashinfer_bench.attacks.results import AttackReport, AttackRow
from flashinfer_bench.cli import screen
from flashinfer_bench.text.tables import page_text

Compare = Callable[[str, str], None]

STOPPED = AttackRow(
    name="replay_by_data_ptr",
    title="The address of the input is taken for its content.",
    family="replay",
    expected=("failed_audit",),
    got="INCORRECT_NUMERICAL: failed_audit",
    evidence="trial 0, call 10: right when it was checked first, wrong in a timed call",
    as_documented=True,
    is_stopped=True,
    not_run_because=None,
    elapsed_s=0.1,
)
THROUGH = replace(
    STOPPED,
    name="clock_patched_now",
    family="clock",
    expected=("implausible", "tampered_harness"),
    got="PASSED",
    evidence="speedup 3.02",
    as_documented=False,
    is_stopped=False,
)
OPEN = replace(
    STOPPED,
    name="wrong_for_this_shape",
    family="wrong",
    expected=("not_stopped",),
    got="PASSED",
    evidence="speedup 1.01",
    is_stopped=False,
)
ELSEWHERE = replace(
    STOPPED,
    name="cuda_tf32",
    family="wrong",
    expected=("visible",),
    got="",
    evidence="",
    as_documented=None,
    is_stopped=None,
    not_run_because="it needs cuda",
)
HONEST = replace(
    STOPPED,
    name="idle_thread_pool",
    family="honest",
    expected=("PASSED",),
    got="PASSED",
    evidence="speedup 0.98",
    is_stopped=None,
)
ACCUSED = replace(
    HONEST,
    name="joined_thread",
    got="INCORRECT_NUMERICAL: early_compute",
    evidence="a very long sentence about what was seen, " * 4,
    as_documented=False,
)
REPORT = AttackReport(
    device="cpu",
    hardware="AMD EPYC",
    torch="2.13.0",
    sandbox="process",
    date="2026-04-30",
    rows=(STOPPED, OPEN, ELSEWHERE, HONEST),
    leftovers=(),
    elapsed_s=61.2,
)


def test_a_suite_that_ends_as_documented_is_a_table(compare: Compare) -> None:
    compare("attack-test-page.txt", page_text(attacks_page(REPORT)))


def test_what_got_through_and_who_was_accused_stands_out(compare: Compare) -> None:
    report = replace(
        REPORT,
        rows=(*REPORT.rows, THROUGH, ACCUSED),
        leftovers=("process 4711 (flashinfer-bench-attack-child) outlived its job",),
    )

    compare("attack-test-page-surprises.txt", page_text(attacks_page(report)))


def test_progress_is_a_line_each(compare: Compare) -> None:
    rows = (STOPPED, THROUGH, ELSEWHERE, ACCUSED)

    compare("attack-test-lines.txt", "".join(f"{attack_line(row)}\n" for row in rows))


def test_a_document_is_what_it_was(compare: Compare, capsys: pytest.CaptureFixture[str]) -> None:
    screen.show_json({"schema_version": 1, "exit_code": 0, "attack_test": REPORT})

    compare("attack-test.json", capsys.readouterr().out)


def test_only_documented_ends_and_no_leftovers_are_a_success() -> None:
    assert REPORT.is_as_documented
    assert not replace(REPORT, rows=(THROUGH,)).is_as_documented
    assert not replace(REPORT, leftovers=("a process",)).is_as_documented
