"""The files of the attack suite say what they do, and docs/attacks.md repeats it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from flashinfer_bench.attacks import outcomes
from flashinfer_bench.attacks.command import _FAMILIES
from flashinfer_bench.attacks.outcomes import Ending, ended
from flashinfer_bench.attacks.results import AttackRow
from flashinfer_bench.attacks.suite import (
    FAMILIES,
    NOT_STOPPED,
    PASSED,
    PREVENTED,
    TOLD,
    VICTIMS,
    VISIBLE,
    Entry,
    entries,
    read_entry,
)
from flashinfer_bench.data import EvaluationStatus, TraceSet
from flashinfer_bench.errors import UsageError

DOCS = Path(__file__).parents[2] / "docs"
SUITE = entries()
HOSTILE = [entry for entry in SUITE if entry.is_hostile]
HONEST = [entry for entry in SUITE if not entry.is_hostile]
WORDS = {*map(str, EvaluationStatus), PREVENTED, VISIBLE, TOLD, NOT_STOPPED}
CODES = {
    "background_compute",
    "changed_inputs",
    "early_compute",
    "failed_audit",
    "hidden_work",
    "implausible",
    "overlapping_output",
    "tampered_harness",
    "tensor_subclass",
}


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_attacks", DOCS / "generate_attacks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_suite_says() -> None:
    page = (DOCS / "attacks.md").read_text(encoding="utf-8")

    assert page == _generator().render(), "run `make docs`"


def test_every_family_has_attacks_and_there_are_enough_look_alikes() -> None:
    found = {entry.family for entry in SUITE}

    assert found == set(FAMILIES)
    assert len(HONEST) >= 80
    assert sum("cpu" in entry.devices for entry in HONEST) >= 72


@pytest.mark.parametrize("size_class", ["small", "full"])
def test_every_victim_has_two_sizes_of_a_class(size_class: str) -> None:
    victims = TraceSet.from_path(VICTIMS)

    sizes = {
        name: {
            tuple(trace.workload.axes.values())
            for trace in victims.workloads[name]
            if trace.workload.is_of_class(size_class)
        }
        for name in victims.definitions
    }

    assert {name: len(found) for name, found in sizes.items()} == dict.fromkeys(sizes, 2)


@pytest.mark.parametrize("entry", SUITE, ids=lambda entry: entry.name)
def test_an_entry_is_a_solution_of_a_victim(entry: Entry) -> None:
    victims = TraceSet.from_path(VICTIMS)

    solution = entry.solution()

    assert solution.definition in victims.definitions
    assert set(entry.devices) <= {"cpu", "cuda"}


@pytest.mark.parametrize("entry", HOSTILE, ids=lambda entry: entry.name)
def test_an_attack_says_how_it_ends_and_what_catches_it(entry: Entry) -> None:
    expected = (*entry.expected, *entry.expected_on_cuda)

    unknown = [word for word in expected if word not in WORDS | CODES and word[:5] != "note:"]

    assert entry.caught_by
    assert unknown == []
    assert PASSED not in expected
    assert bool(entry.why_not) == (NOT_STOPPED in expected)


@pytest.mark.parametrize("entry", HOSTILE, ids=lambda entry: entry.name)
def test_what_is_not_stopped_is_expected_to_do_nothing_else(entry: Entry) -> None:
    for expected in (entry.expected, entry.expected_on_cuda):
        assert NOT_STOPPED not in expected or expected == (NOT_STOPPED,)


@pytest.mark.parametrize("entry", HOSTILE, ids=lambda entry: entry.name)
def test_an_honest_twin_does_the_same_work(entry: Entry) -> None:
    by_name = {each.name: each for each in HONEST}

    assert not entry.honest_twin or by_name[entry.honest_twin].victim == entry.victim


def test_the_command_knows_every_family() -> None:
    assert set(_FAMILIES) == set(FAMILIES)


def test_an_attack_that_gets_itself_skipped_has_not_been_stopped() -> None:
    (entry,) = entries(only=["theft_claims_no_toolchain"])
    row = AttackRow("x", "", "theft", entry.expected, "", "", None, None, None, 0.0)

    dodged = ended(row, entry, Ending(skipped="no", was_skipped_by_itself=True), sandbox="process")
    absent = ended(row, entry, Ending(skipped="no"), sandbox="process")

    assert (dodged.as_documented, dodged.not_run_because) == (False, None)
    assert (absent.as_documented, absent.not_run_because) == (None, "no")


@pytest.mark.parametrize(
    ("refused", "expected"), [(None, (False, None)), ("no", (None, "it gave none: no"))]
)
def test_what_only_counters_stop_is_expected_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch, refused: str | None, expected: tuple[bool | None, str | None]
) -> None:
    monkeypatch.setattr(outcomes, "why_not_counted", lambda: refused)
    (entry,) = entries(only=["clock_early_brief_child"])
    row = AttackRow("x", "", "clock", entry.expected, "", "", None, None, None, 0.0)

    found = ended(row, entry, Ending(broke="it got through"), sandbox="process")

    reason = found.not_run_because and found.not_run_because.partition(", and ")[2]
    assert (found.as_documented, reason) == expected


@pytest.mark.parametrize("entry", HONEST, ids=lambda entry: entry.name)
def test_a_look_alike_has_to_pass(entry: Entry) -> None:
    assert entry.expected == (PASSED,)


def test_a_look_alike_names_the_packages_it_needs(tmp_path: Path) -> None:
    file = tmp_path / "honest" / "looped.py"
    file.parent.mkdir()
    file.write_text('"""Looped.\n\nhow: a loop\nneeds: numba, scipy\nplays: row_sum\n"""\n')

    assert read_entry(file).solution().spec.dependencies == ["numba", "scipy"]


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UsageError, match="'no_such_thing'"):
        entries(only=["no_such_thing"])


def test_a_file_without_a_table_says_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "hostile" / "bare.py"
    file.parent.mkdir()
    file.write_text('"""Bare.\n\nfamily: wrong\n"""\n')

    with pytest.raises(ValueError, match="'how'"):
        read_entry(file)


def test_a_fault_of_the_engine_fits_nothing() -> None:
    ending = Ending(broke="WorkerError: gone")

    assert not any(ending.fits((word,)) for word in WORDS | CODES)
