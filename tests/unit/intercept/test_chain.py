"""Calls pass handlers in order; the fallback is the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from flashinfer_bench.errors import DatasetNotFoundError, NestingError, NoFallbackError
from flashinfer_bench.intercept import Call, Chain, Link, Proceed, Rank
from flashinfer_bench.intercept.runtimes import Runtimes


class Notes:
    """Writes down what it sees; answers calls of the definitions in `answers`."""

    def __init__(
        self, name: str, seen: list[str], answers: Mapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self.seen = seen
        self.answers = answers or {}

    def link(self, name: str) -> Link:
        def link(args: tuple[Any, ...], kwargs: Mapping[str, Any], proceed: Proceed) -> Any:
            self.seen.append(f"{self.name} {name}")
            return self.answers[name] if name in self.answers else proceed(*args, **kwargs)

        return link

    def find(self, call: Call) -> str | None:
        return next((name for name in call.names if name in self.answers), None)


def adds(first: int, second: int = 0) -> int:
    return first + second


def test_with_no_handler_the_fallback_gets_the_arguments_unchanged() -> None:
    assert Chain().call("add", (1,), {"second": 2}, adds) == 3


def test_with_no_handler_and_no_fallback_the_error_names_the_definition() -> None:
    with pytest.raises(RuntimeError, match="'add'"):
        Chain().call("add", (1,), {}, None)
    with pytest.raises(NoFallbackError):
        Chain().call("add", (1,), {}, None)


def test_handlers_see_a_call_by_rank_whatever_the_order_they_came_in() -> None:
    seen: list[str] = []
    chain = Chain()
    chain.set(Rank.TRACING, Notes("tracing", seen))
    chain.set(Rank.APPLY, Notes("apply", seen))

    answer = chain.call("add", (1,), {"second": 2}, adds)

    assert answer == 3
    assert seen == ["apply add", "tracing add"]


def test_what_one_handler_answers_the_next_does_not_see() -> None:
    seen: list[str] = []
    chain = Chain()
    chain.set(Rank.APPLY, Notes("apply", seen, {"add": 42}))
    chain.set(Rank.TRACING, Notes("tracing", seen))

    assert chain.call("add", (1,), {}, adds) == 42
    assert seen == ["apply add"]


def test_a_handler_taken_away_sees_nothing_more() -> None:
    seen: list[str] = []
    chain = Chain()
    chain.set(Rank.APPLY, Notes("apply", seen))
    chain.call("add", (1,), {}, adds)
    chain.set(Rank.APPLY, None)

    chain.call("add", (1,), {}, adds)

    assert seen == ["apply add"]
    assert not chain.active


def test_the_environment_is_asked_once_by_the_first_call() -> None:
    asked: list[str] = []
    chain = Chain([lambda: asked.append("asked")])
    assert asked == []

    chain.call("add", (1,), {}, adds)
    chain.call("add", (1,), {}, adds)

    assert asked == ["asked"]


def test_a_start_from_the_environment_that_fails_is_logged_and_calls_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise DatasetNotFoundError("no such dataset", path="/nowhere")

    assert Chain([fail]).call("add", (1,), {}, adds) == 1
    assert "/nowhere: no such dataset" in caplog.text


def readings(*names: str, give_back: Callable[[Any], Any] = lambda value: value) -> list[Call]:
    return [Call((1, 2), frozenset(), (name,), give_back=give_back) for name in names]


def test_a_library_call_is_answered_in_the_first_reading_somebody_knows() -> None:
    seen: list[str] = []
    chain = Chain()
    chain.set(Rank.APPLY, Notes("apply", seen, {"flat": 7}))
    calls = readings("whole", "flat", give_back=lambda value: f"given back {value}")

    assert chain.send(calls, lambda: "original") == "given back 7"
    assert seen == ["apply flat"]


def test_a_library_call_nobody_knows_is_the_originals() -> None:
    chain = Chain()
    chain.set(Rank.APPLY, Notes("apply", [], {"other": 1}))

    assert chain.send(readings("whole"), lambda: "original") == "original"


def test_what_a_handler_lets_proceed_is_returned_as_the_library_made_it() -> None:
    class Looks(Notes):
        def find(self, call: Call) -> str | None:
            return call.names[0]

    seen: list[str] = []
    chain = Chain()
    chain.set(Rank.APPLY, Looks("apply", seen))
    chain.set(Rank.TRACING, Looks("tracing", seen))
    original = object()

    calls = readings("whole", give_back=lambda value: "never")

    assert chain.send(calls, lambda: original) is original
    assert seen == ["apply whole", "tracing whole"]


def test_the_newest_runtime_is_in_force_and_stops_first() -> None:
    chain, seen = Chain(), []  # type: ignore[var-annotated]
    runtimes: Runtimes[Notes] = Runtimes(Rank.APPLY, chain)
    old, new = Notes("old", seen), Notes("new", seen)
    runtimes.push(old)
    runtimes.push(new)

    chain.call("add", (1,), {}, adds)
    with pytest.raises(NestingError, match="LIFO"):
        runtimes.pop(old)
    runtimes.pop(new)
    chain.call("add", (1,), {}, adds)

    assert seen == ["new add", "old add"]


def test_pushing_the_top_again_does_nothing_and_a_lower_one_comes_to_the_top() -> None:
    chain = Chain()
    runtimes: Runtimes[Notes] = Runtimes(Rank.APPLY, chain)
    old, new = Notes("old", []), Notes("new", [])

    pushed = [runtimes.push(each) for each in (old, old, new, old)]

    assert pushed == [True, False, True, True]
    assert runtimes.all() == [new, old]
