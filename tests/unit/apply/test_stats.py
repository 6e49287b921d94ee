"""Counters lose nothing and stay bounded."""

from __future__ import annotations

import threading

from flashinfer_bench.apply.stats import OTHER_SHAPES, ApplyCounters, Counter


def test_a_counter_says_how_often_it_was_counted_however_often_it_is_read() -> None:
    counter = Counter()
    reads = [counter.read()]
    for _ in range(3):
        counter.count()
        reads += [counter.read(), counter.read()]

    assert reads == [0, 1, 1, 2, 2, 3, 3]


def test_no_count_is_lost_between_threads() -> None:
    counter, each = Counter(), 20_000
    threads = [
        threading.Thread(target=lambda: [counter.count() for _ in range(each)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        counter.read()
    for thread in threads:
        thread.join()

    assert counter.read() == 8 * each


def test_counts_come_largest_first_and_zeros_are_left_out() -> None:
    counters = ApplyCounters()
    for name in ("a", "b", "b", "c"):
        counters[name].count()
    _ = counters["never counted"]

    assert list(counters.read().items()) == [("b", 2), ("a", 1), ("c", 1)]


def test_beyond_a_bound_names_are_counted_together() -> None:
    counters = ApplyCounters(most=2)
    for name in ("a", "b", "c", "d"):
        counters[name].count()

    assert counters.read() == {OTHER_SHAPES: 2, "a": 1, "b": 1}
