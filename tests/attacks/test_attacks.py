"""Every attack that a CPU can mount, and every quick look-alike, through the real engine: all end as documented."""

from __future__ import annotations

import pytest

from flashinfer_bench.attacks.running import Setting, run_suite
from flashinfer_bench.attacks.suite import FAMILIES, Entry, entries
from flashinfer_bench.report.attacks import AttackReport, AttackRow

pytest.importorskip("torch", reason="running solutions needs torch")

SETTING = Setting(device="cpu", overrides={"threads": 1})
QUICK = [entry for entry in entries(with_slow=False) if "cpu" in entry.devices]
NAMES = [entry.name for entry in QUICK]


class Runs:
    """Runs a family once, when the first of its entries is asked for."""

    def __init__(self) -> None:
        self._reports: dict[str, AttackReport] = {}

    def report(self, family: str) -> AttackReport:
        if family not in self._reports:
            members = [entry for entry in QUICK if entry.family == family]
            self._reports[family] = run_suite(members, SETTING)
        return self._reports[family]

    def row(self, entry: Entry) -> AttackRow:
        rows = self.report(entry.family).rows
        return next(row for row in rows if row.name == entry.name)


@pytest.fixture(scope="module")
def runs() -> Runs:
    return Runs()


@pytest.mark.parametrize("entry", QUICK, ids=NAMES)
def test_it_ends_as_documented(runs: Runs, entry: Entry) -> None:
    row = runs.row(entry)

    if row.not_run_because is not None:
        pytest.skip(row.not_run_because)
    assert row.as_documented, f"{row.got}, expected {row.expected}: {row.evidence}"


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_left_behind(runs: Runs, family: str) -> None:
    assert runs.report(family).leftovers == ()
