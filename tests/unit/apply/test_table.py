"""Which solution wins which size, and what is done where nothing was measured."""

from __future__ import annotations

from typing import Any

import pytest

from flashinfer_bench.apply.config import ApplyConfig
from flashinfer_bench.apply.table import ApplyKey, Choice, Winner, WinnerTable, merged, tables_of
from flashinfer_bench.data import Solution, Trace
from tests.unit.apply.datasets import ADD, HERE, dataset, definition, marked, solution, trace

FAST, SLOW = marked("fast", 7), marked("slow", 5)
ITSELF = solution("itself", ADD)


def key(**axes: int) -> ApplyKey:
    return ApplyKey.of(axes)


def winners(solutions: list[Solution], traces: list[Trace], **config: Any) -> dict[str, Any]:
    """Winners here, by M."""
    tables = tables_of(dataset(solutions, traces), "add", ApplyConfig(**config))
    table = tables.get(HERE, WinnerTable({}))
    return {f"M={dict(each.axes)['M']}": won.solution for each, won in table.winners.items()}


def measured(*names: str) -> WinnerTable:
    return WinnerTable({key(M=at): Winner(name, 2.0) for at, name in enumerate(names, start=1)})


TWO_SIZES = [
    trace("fast", {"M": 2}, 3),
    trace("slow", {"M": 2}, 1),
    trace("slow", {"M": 3}, 2),
]


def test_the_highest_speedup_wins_each_size() -> None:
    assert winners([FAST, SLOW], TWO_SIZES) == {"M=2": "fast", "M=3": "slow"}


def test_of_equally_many_wins_the_first_one_is_the_best_of_the_definition() -> None:
    tables = tables_of(dataset([FAST, SLOW], TWO_SIZES), "add", ApplyConfig())

    assert tables[HERE].def_best == "fast"


def test_most_wins_make_the_best_of_the_definition() -> None:
    assert measured("slow", "fast", "fast").def_best == "fast"


@pytest.mark.parametrize(
    ("size", "policy", "found"),
    [
        (2, "fallback_only", Choice("fast", "measured")),
        (99, "fallback_only", None),
        (99, "use_def_best", Choice("slow", "use_def_best")),
        (99, "use_nearest", Choice("slow", "use_nearest")),
        (5, "use_nearest", Choice("slow", "use_nearest")),
        (3, "use_nearest", Choice("fast", "use_nearest")),
    ],
)
def test_a_policy_says_what_answers_a_size(size: int, policy: str, found: Choice | None) -> None:
    table = WinnerTable(
        {
            key(M=2): Winner("fast", 3.0),
            key(M=8): Winner("slow", 2.0),
            key(M=16): Winner("slow", 2.0),
        }
    )

    assert table.choose(key(M=size), policy) == found


def test_without_any_winner_every_policy_means_the_fallback() -> None:
    policies = ("fallback_only", "use_def_best", "use_nearest")

    assert [WinnerTable({}).choose(key(M=1), policy) for policy in policies] == [None, None, None]


def test_nearest_counts_in_factors_over_all_axes() -> None:
    table = WinnerTable(
        {key(M=100, S=1): Winner("wide", 1.0), key(M=10, S=100): Winner("long", 1.0)},
    )

    nearest = [table.choose(key(M=m, S=s), "use_nearest") for m, s in ((50, 2), (50, 60), (0, 100))]

    assert [each.solution for each in nearest if each] == ["wide", "long", "long"]


@pytest.mark.parametrize(("ratio", "count"), [(0.5, 2), (0.1, 1), (0.0, 0), (1.0, 5), (0.99, 4)])
def test_a_share_of_the_winners_is_built_ahead_at_least_one_unless_none(
    ratio: float, count: int
) -> None:
    table = measured("a", "b", "c", "d", "e")

    assert len(table.to_build(ApplyConfig(aot_ratio=ratio))) == count


def test_those_with_most_wins_are_built_first_and_the_best_of_the_definition_is_among_them() -> (
    None
):
    table = measured("a", "b", "b", "c")

    half = ApplyConfig(aot_ratio=0.5, on_miss_policy="use_def_best")

    assert table.to_build(half) == ["b"]
    assert table.to_build(half.model_copy(update={"aot_ratio": 0.0})) == []


@pytest.mark.parametrize(
    "unusable",
    [
        trace("fast", {"M": 2}, status="RUNTIME_ERROR"),
        trace("fast", {"M": 2}, interpreted=True),
        trace("fast", {"M": 2}, notes=("reused_buffer",)),
        trace("fast", {"M": 2}, solution_hash="v1-of-other-code"),
        trace("unknown", {"M": 2}),
        trace("fast", {}),
        trace("itself", {"M": 2}),
    ],
    ids=[
        "failed",
        "interpreted",
        "reuses its buffer",
        "other code",
        "no such solution",
        "no size",
        "the reference itself",
    ],
)
def test_a_trace_that_says_nothing_about_this_code_here_makes_no_winner(unusable: Trace) -> None:
    assert winners([FAST, SLOW, ITSELF], [unusable]) == {}


def test_other_notes_and_the_right_hash_do_not_exclude_a_trace() -> None:
    traces = [
        trace("fast", {"M": 2}, notes=("unusual_strides",)),
        trace("slow", {"M": 3}, solution_hash=SLOW.hash()),
    ]

    assert winners([FAST, SLOW], traces) == {"M=2": "fast", "M=3": "slow"}


def test_a_reused_buffer_is_allowed_where_the_user_says_so() -> None:
    traces = [trace("fast", {"M": 2}, notes=("reused_buffer",))]

    assert winners([FAST], traces, allow_reused_buffers=True) == {"M=2": "fast"}


def test_a_solution_that_failed_since_is_out_and_one_that_passes_since_is_in() -> None:
    passed, failed = trace("fast", {"M": 2}), trace("fast", {"M": 2}, status="INCORRECT_SHAPE")

    assert winners([FAST], [passed, failed]) == {}
    assert winners([FAST], [failed, passed]) == {"M=2": "fast"}


def test_what_failed_since_is_out_where_a_younger_trace_comes_first_in_the_record() -> None:
    """As in a dataset of two folders, or a merged one."""
    passed, failed = trace("fast", {"M": 2}), trace("fast", {"M": 2}, status="INCORRECT_SHAPE")
    assert passed.evaluation is not None
    long_ago = passed.evaluation.model_copy(update={"timestamp": "2001-02-03T04:05:06+00:00"})

    assert winners([FAST], [failed, passed.model_copy(update={"evaluation": long_ago})]) == {}


def test_passing_is_enough_unless_bounds_are_set() -> None:
    traces = [trace("fast", {"M": 2}, errors=(0.5, 900.0)), trace("slow", {"M": 2}, 1)]

    assert winners([FAST, SLOW], traces) == {"M=2": "fast"}
    assert winners([FAST, SLOW], traces, max_atol=1e-2) == {"M=2": "slow"}
    assert winners([FAST, SLOW], traces, max_rtol=1e-2) == {"M=2": "slow"}


def test_an_error_that_is_no_number_is_within_no_bound() -> None:
    traces = [trace("fast", {"M": 2}, errors=(float("nan"), 0.0))]

    assert winners([FAST], traces, max_atol=1e9) == {}


def test_solutions_that_prepare_are_used_only_where_static_inputs_never_change() -> None:
    prepares = solution(
        "prepares", "def pack(B): ...\n\ndef run(state, A, B): ...\n", prepare="pack"
    )
    traces = [trace("prepares", {"M": 2})]

    assert winners([prepares], traces) == {}
    assert winners([prepares], traces, static_inputs_never_change=True) == {"M=2": "prepares"}


def test_devices_have_tables_of_their_own() -> None:
    traces = [trace("fast", {"M": 2}, 9, hardware="another"), trace("slow", {"M": 2}, 1)]

    tables = tables_of(dataset([FAST, SLOW], traces), "add", ApplyConfig())

    assert tables[HERE].def_best == "slow"
    assert tables["another"].def_best == "fast"


def test_where_other_devices_count_this_ones_word_comes_first() -> None:
    here = WinnerTable({key(M=1): Winner("here", 1.0)})
    first = WinnerTable({key(M=1): Winner("first", 9.0), key(M=2): Winner("first", 2.0)})
    second = WinnerTable({key(M=2): Winner("second", 3.0)})

    all_of_them = merged({"this": here, "first": first, "second": second}, "this")

    assert [all_of_them.winners[key(M=m)].solution for m in (1, 2)] == ["here", "second"]


def test_derived_and_constant_axes_of_a_workload_do_not_split_sizes() -> None:
    traces = [trace("fast", {"M": 2, "N": 4}), trace("slow", {"M": 2}, 1)]

    assert winners([FAST, SLOW], traces) == {"M=2": "fast"}


def test_a_definition_without_variable_axes_has_one_size() -> None:
    row = {"shape": ["N"], "dtype": "float32"}
    fixed = definition(
        axes={"N": {"type": "const", "value": 4}}, inputs={"A": row, "B": row}, outputs={"C": row}
    )

    tables = tables_of(dataset([FAST], [trace("fast", {})], [fixed]), "add", ApplyConfig())

    assert tables[HERE].choose(key(), "fallback_only") == Choice("fast", "measured", 0.5)
