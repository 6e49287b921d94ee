from __future__ import annotations

import itertools
from collections import Counter

from flashinfer_bench.bench.timing.turns import order_of_turns


def test_who_comes_first_is_fair_and_follows_no_rhythm() -> None:
    firsts = [order_of_turns(["a", "b"], seed=f"7 0 {block}")[0] for block in range(1000)]

    changes = sum(one != following for one, following in itertools.pairwise(firsts))
    assert 440 <= firsts.count("a") <= 560
    assert 440 <= changes <= 560


def test_every_order_of_three_occurs_as_often() -> None:
    found = Counter("".join(order_of_turns("abc", seed=str(block))) for block in range(6000))

    assert len(found) == 6
    assert min(found.values()) > 850


def test_the_same_seed_gives_the_same_order() -> None:
    assert order_of_turns("abcdef", seed="5") == order_of_turns("abcdef", seed="5")


def test_without_a_seed_the_order_is_new_every_time() -> None:
    assert len({tuple(order_of_turns(range(20))) for _ in range(10)}) == 10
