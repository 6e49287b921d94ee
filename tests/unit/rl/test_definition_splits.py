"""Splits of definitions: by their own hash, stable, about a fifth each held out; declared ones stay."""

from __future__ import annotations

from flashinfer_bench.rl.splits import DeclaredSplits, definitions_of

NAMES = [f"definition_{number}" for number in range(1000)]
NOTHING = DeclaredSplits()


def test_each_definition_is_of_one_split_and_a_fifth_is_held_out_each() -> None:
    parts = [definitions_of(split, NAMES, NOTHING) for split in ("train", "validation", "test")]

    assert sorted(name for part in parts for name in part) == sorted(NAMES)
    assert [round(len(part), -2) for part in parts] == [600, 200, 200]


def test_a_new_definition_moves_no_other() -> None:
    before = definitions_of("test", NAMES[:500], NOTHING)
    after = definitions_of("test", NAMES, NOTHING)

    assert set(before) == set(after) & set(NAMES[:500])


def test_a_declared_definition_is_where_it_was_declared() -> None:
    held = definitions_of("train", NAMES, NOTHING)[0]
    declared = DeclaredSplits(definitions={held: "test"})

    assert held in definitions_of("test", NAMES, declared)
    assert held not in definitions_of("train", NAMES, declared)


def test_with_few_definitions_none_is_held_out_but_the_declared_ones() -> None:
    declared = DeclaredSplits(definitions={"secret": "test"})
    names = ["a", "b", "secret"]

    found = {split: definitions_of(split, names, declared) for split in ("train", "test")}

    assert found == {"train": ["a", "b"], "test": ["a", "b", "secret"]}
