"""Every attack that a CPU can mount, and every look-alike, through the real engine: all end as documented.

Look-alikes are played on both sizes of their victim in one process. `make test` plays thirty-five, some of each family
that ends within a second; `make test-full` plays all.
"""

from __future__ import annotations

import pytest

from flashinfer_bench.attacks.results import AttackReport, AttackRow
from flashinfer_bench.attacks.running import Setting, run_suite
from flashinfer_bench.attacks.suite import FAMILIES, Entry, entries

pytest.importorskip("torch", reason="running solutions needs torch")

SETTING = Setting(device="cpu", overrides={"threads": 1})
SUITE = [entry for entry in entries() if "cpu" in entry.devices]
QUICK = frozenset(
    (
        "replay_by_call_count",
        "replay_by_data_ptr",
        "replay_in_thread_local",
        "replay_packed_by_address",
        "clock_early_autocast_key",
        "clock_early_in_prepare",
        "clock_late_function_mode",
        "clock_late_in_write",
        "clock_late_negative_key",
        "clock_late_instance_method",
        "clock_patched_now",
        "clock_short_call",
        "theft_at_compile_time",
        "theft_claims_no_toolchain",
        "theft_forged_answer",
        "theft_forged_peak",
        "wrong_broadcast_output",
        "wrong_constant",
        "wrong_forged_fingerprint",
        "wrong_nan",
        "wrong_one_call_of_three",
        "plays_after_a_kill",
        "plays_after_broken_judge",
        "workloads_early_in_the_second",
        "allowances_early_in_clock",
        "allowances_early_in_draws",
        "allowances_late_forged_strides",
        "allowances_late_in_plan",
        "early_exit",
        "einsum_product",
        "other_default_dtype",
        "sorted_fast_path",
        "strided_windows",
        "threads_inside",
        "times_itself",
    )
)
PARAMETERS = [
    pytest.param(entry, id=entry.name, marks=[] if entry.name in QUICK else [pytest.mark.full])
    for entry in SUITE
]


class Runs:
    """Runs the quick members of a family, or the others, once: when the first of them is asked for."""

    def __init__(self) -> None:
        self._reports: dict[tuple[str, bool], AttackReport] = {}

    def report(self, family: str, *, is_quick: bool) -> AttackReport:
        if (family, is_quick) not in self._reports:
            members = [e for e in SUITE if (e.family, e.name in QUICK) == (family, is_quick)]
            self._reports[family, is_quick] = run_suite(members, SETTING)
        return self._reports[family, is_quick]

    def row(self, entry: Entry) -> AttackRow:
        rows = self.report(entry.family, is_quick=entry.name in QUICK).rows
        return next(row for row in rows if row.name == entry.name)


@pytest.fixture(scope="module")
def runs() -> Runs:
    return Runs()


@pytest.mark.parametrize("entry", PARAMETERS)
def test_it_ends_as_documented(runs: Runs, entry: Entry) -> None:
    row = runs.row(entry)

    if row.not_run_because is not None:
        pytest.skip(row.not_run_because)
    assert row.as_documented, f"{row.got}, expected {row.expected}: {row.evidence}"


def test_the_quick_ones_are_known() -> None:
    assert {entry.name for entry in SUITE} >= QUICK


@pytest.mark.parametrize("family", sorted({e.family for e in SUITE if e.name in QUICK}))
def test_nothing_is_left_behind(runs: Runs, family: str) -> None:
    assert runs.report(family, is_quick=True).leftovers == ()


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_left_behind_by_the_others(runs: Runs, family: str) -> None:
    assert runs.report(family, is_quick=False).leftovers == ()
