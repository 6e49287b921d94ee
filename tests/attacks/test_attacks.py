"""Every attack that a CPU can mount, and every look-alike, through the real engine: all end as documented.

Look-alikes are played on both sizes of their victim in one process. What compiles for long is marked `slow`.
"""

from __future__ import annotations

import pytest

from flashinfer_bench.attacks.running import Setting, run_suite
from flashinfer_bench.attacks.suite import FAMILIES, Entry, entries
from flashinfer_bench.report.attacks import AttackReport, AttackRow

pytest.importorskip("torch", reason="running solutions needs torch")

SETTING = Setting(device="cpu", overrides={"threads": 1})
SUITE = [entry for entry in entries() if "cpu" in entry.devices]
PARAMETERS = [
    pytest.param(entry, id=entry.name, marks=[pytest.mark.slow] if entry.is_slow else [])
    for entry in SUITE
]


class Runs:
    """Runs a family once, when the first of its entries is asked for; what is slow apart from the rest."""

    def __init__(self) -> None:
        self._reports: dict[tuple[str, bool], AttackReport] = {}

    def report(self, family: str, *, is_slow: bool = False) -> AttackReport:
        if (family, is_slow) not in self._reports:
            members = [e for e in SUITE if (e.family, e.is_slow) == (family, is_slow)]
            self._reports[family, is_slow] = run_suite(members, SETTING)
        return self._reports[family, is_slow]

    def row(self, entry: Entry) -> AttackRow:
        rows = self.report(entry.family, is_slow=entry.is_slow).rows
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
    assert row.is_hostile or row.got.endswith("(of 2 runs)")


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_left_behind(runs: Runs, family: str) -> None:
    assert runs.report(family).leftovers == ()
