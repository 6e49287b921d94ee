from __future__ import annotations

from dataclasses import replace

from flashinfer_bench.bench.attempts import Keys
from tests.unit.bench.values import job


def _keys(keys: Keys, count: int = 3, *, can_keep_notes: bool = False) -> list[int]:
    return [keys.next(job(), number=1, can_keep_notes=can_keep_notes).key for _ in range(count)]


def test_no_attempt_has_the_key_of_another() -> None:
    assert len(set(_keys(Keys(7, is_seed=True), 100))) == 100


def test_a_seed_gives_the_same_keys_in_the_next_run() -> None:
    assert _keys(Keys(7, is_seed=True)) == _keys(Keys(7, is_seed=True))


def test_a_seed_gives_other_keys_to_a_candidate_that_could_have_kept_notes() -> None:
    runs = [_keys(Keys(7, is_seed=True), can_keep_notes=True) for _ in range(2)]
    assert not set(runs[0]) & set(runs[1])
    assert not Keys(7, is_seed=True).next(job(), number=1, can_keep_notes=True).follows_seed


def test_the_same_code_under_another_name_has_other_keys() -> None:
    one = job()
    twin = replace(one, solution=one.solution.model_copy(update={"name": "twin"}))
    assert one.solution.hash() == twin.solution.hash()
    keys = [
        Keys(7, is_seed=True).next(each, number=1, can_keep_notes=False) for each in (one, twin)
    ]
    assert keys[0].key != keys[1].key


def test_a_job_that_is_replayed_keeps_its_key() -> None:
    again = replace(job(), key=99)
    assert Keys(7, is_seed=False).next(again, number=1, can_keep_notes=True).key == 99
