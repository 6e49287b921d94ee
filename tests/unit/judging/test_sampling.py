from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from flashinfer_bench.bench.run_settings import JUDGE_PARAMETERS
from flashinfer_bench.data import Definition
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging import JudgedCall, JudgeVerdict, Tolerance
from flashinfer_bench.judging.judges import judge_for
from flashinfer_bench.judging.sampled_tokens import SamplingRules

Sampler = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
DTYPES = {
    "probs": "float32",
    "logits": "float32",
    "top_k": "int32",
    "top_p": "float32",
    "min_p": "float32",
}


def defined(*names: str, outputs: dict[str, str] | None = None) -> Definition:
    shapes = {"probs": ["b", "v"], "logits": ["b", "v"], "temperature": None}
    return Definition(
        name="draw",
        op_type="sampling",
        axes={"b": {"type": "var"}, "v": {"type": "var"}},
        inputs={
            name: {"shape": shapes.get(name, ["b"]), "dtype": DTYPES.get(name, "float32")}
            for name in names
        },
        outputs={
            name: {"shape": ["b"], "dtype": dtype}
            for name, dtype in (outputs or {"samples": "int64"}).items()
        },
        reference="def run():\n    return 0\n",
    )


def rows(count: int, vocabulary: int, *, seed: int = 1, temperature: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(torch.randn(count, vocabulary, generator=generator) / temperature, -1)


def plain(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.multinomial(probs, 1, generator=generator)[:, 0]


def argmax(probs: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return probs.argmax(-1)


def uniform(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(probs.shape[-1], (len(probs),), generator=generator)


def flatter(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return plain(probs.sqrt(), generator)


def first_of_equals(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    drawn = plain(probs, generator)
    return (probs == probs.gather(-1, drawn[:, None])).int().argmax(-1)


def wrong_in_one_row(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    drawn = plain(probs, generator)
    drawn[-1] = probs[-1].argmax()
    return drawn


def repeated(
    sampler: Sampler,
    probs: torch.Tensor,
    calls: int | None = None,
    seed: int = 2,
    **extra: float,
) -> JudgeVerdict:
    judge = judge_for(defined("probs"), extra)
    generator = torch.Generator().manual_seed(seed)
    count = judge.repeats([probs]) if calls is None else calls
    drawn = [[sampler(probs, generator)] for _ in range(count)]
    return judge.open_case(Tolerance(1e-2, 1e-2)).hear_repeats([probs], drawn)


@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0, 10.0])
@pytest.mark.parametrize(("count", "vocabulary"), [(1, 5), (1, 5000), (16, 300), (64, 2)])
def test_honest_draws_pass_whatever_the_rows_look_like(
    count: int, vocabulary: int, temperature: float
) -> None:
    verdict = repeated(plain, rows(count, vocabulary, temperature=temperature))

    assert verdict.is_accepted, verdict.explanation


@pytest.mark.parametrize(
    ("sampler", "probs"),
    [
        (argmax, rows(1, 5000)),
        (argmax, rows(32, 5000)),
        (uniform, rows(1, 5000)),
        (uniform, rows(32, 50)),
        (flatter, rows(32, 5000)),
        (first_of_equals, torch.full((4, 1000), 1e-3)),
        (wrong_in_one_row, rows(64, 5000)),
    ],
    ids=[
        "argmax",
        "argmax, 32 rows",
        "uniform",
        "uniform, few tokens",
        "flatter",
        "ties",
        "one row",
    ],
)
def test_wrong_distributions_do_not_pass(sampler: Sampler, probs: torch.Tensor) -> None:
    verdict = repeated(sampler, probs)

    assert not verdict.is_accepted
    assert "not drawn as often as they should be" in verdict.explanation


def test_false_alarms_are_no_more_frequent_than_stated() -> None:
    """A thousand honest samplers, with nothing forgiven but what chance explains."""
    probs = torch.cat([rows(4, 60), rows(4, 60, temperature=0.2, seed=5)])
    strict = {"sampling_tvd_threshold": 0.0, "sampling_rank_tolerance": 0.0}

    alarms = sum(
        not repeated(plain, probs, 20, seed, sampling_false_alarm_rate=0.1, **strict).is_accepted
        for seed in range(1000)
    )

    assert alarms / 1000 <= 0.1
    assert alarms > 0  # the bounds are not so wide that they never ring


def test_the_total_variation_distance_is_that_of_the_draws() -> None:
    probs = torch.tensor([[0.5, 0.5]])
    drawn = [[torch.tensor([0])]] * 13 + [[torch.tensor([1])]] * 7

    verdict = (
        judge_for(defined("probs")).open_case(Tolerance(1e-2, 1e-2)).hear_repeats([probs], drawn)
    )

    assert verdict.extra["tvd"] == pytest.approx(0.15)
    assert verdict.extra["tvds_per_batch"] == [pytest.approx(0.15)]


@pytest.mark.parametrize(("first", "is_accepted"), [(0.65, True), (0.75, False)])
def test_the_threshold_is_the_distance_that_is_forgiven(first: float, is_accepted: bool) -> None:
    probs = torch.tensor([[0.5, 0.5]])

    def biased(_: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return (torch.rand(1, generator=generator) >= first).long()

    lenient = {"sampling_rank_tolerance": 1.0, "sampling_false_alarm_rate": 0.01}

    assert repeated(biased, probs, 10_000, **lenient).is_accepted is is_accepted


@pytest.mark.parametrize(
    ("token", "why"),
    [(4, "probability 0"), (-1, "not between 0 and 4"), (5, "not between 0 and 4")],
)
def test_tokens_outside_the_support_are_wrong_and_named(token: int, why: str) -> None:
    probs = torch.tensor([[0.4, 0.3, 0.2, 0.1, 0.0]] * 3)
    call = JudgedCall([probs], [torch.tensor([0, token, 3])])

    verdict = judge_for(defined("probs")).open_case(Tolerance(1e-2, 1e-2)).hear(call)

    assert not verdict.is_accepted
    assert (verdict.max_absolute, verdict.max_relative) == (math.inf, math.inf)
    assert f"in row 1: token {token}, {why}" in verdict.explanation


def test_limits_may_be_scalars_or_rows() -> None:
    probs = torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 2)
    judge = judge_for(defined("probs", "top_k", "min_p"))

    def hear(top_k: Any, min_p: Any, tokens: list[int]) -> bool:
        call = JudgedCall([probs, top_k, min_p], [torch.tensor(tokens)])
        return judge.open_case(Tolerance(1e-2, 1e-2)).hear(call).is_accepted

    assert hear(2, 0.0, [1, 1])
    assert not hear(2, 0.0, [1, 2])
    assert hear(torch.tensor([2, 3]), torch.tensor([0.0, 0.5]), [1, 2])
    assert not hear(torch.tensor([2, 4]), torch.tensor([0.0, 0.5]), [1, 3])


def test_logits_are_turned_into_probabilities() -> None:
    logits = torch.tensor([[2.0, 0.0, float("-inf")]])
    judge = judge_for(defined("logits", "temperature"))

    def hear(token: int) -> bool:
        call = JudgedCall([logits, 0.5], [torch.tensor([token])])
        return judge.open_case(Tolerance(1e-2, 1e-2)).hear(call).is_accepted

    assert [hear(token) for token in range(3)] == [True, True, False]


def test_several_draws_of_a_row_belong_to_it() -> None:
    probs = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    judge = judge_for(defined("probs"))

    def hear(tokens: list[Any]) -> bool:
        call = JudgedCall([probs], [torch.tensor(tokens)])
        return judge.open_case(Tolerance(1e-2, 1e-2)).hear(call).is_accepted

    assert hear([[0, 0, 0], [1, 1, 1]])
    assert hear([0, 1, 0, 1, 0, 1])  # a batch repeated, one row after the other
    assert not hear([0, 0, 0, 1, 1, 1])


def heard(case: Any, sampler: Sampler, calls: int, count: int) -> None:
    generator = torch.Generator().manual_seed(9)
    for call in range(calls):
        probs = rows(count, 4000, seed=100 + call)
        assert case.hear(JudgedCall([probs], [sampler(probs, generator)])).is_accepted


@pytest.mark.parametrize("count", [1, 16])
def test_honest_single_calls_pass_together(count: int) -> None:
    case = judge_for(defined("probs")).open_case(Tolerance(1e-2, 1e-2))
    heard(case, plain, 12, count)

    assert case.close().is_accepted


def test_single_calls_that_are_all_wrong_in_the_same_way_fail_together() -> None:
    case = judge_for(defined("probs")).open_case(Tolerance(1e-2, 1e-2))
    heard(case, uniform, 12, 16)

    verdict = case.close()

    assert not verdict.is_accepted
    assert "in timed calls, likely and unlikely tokens" in verdict.explanation


@pytest.mark.parametrize("kept", [1, 3])
def test_draws_of_earlier_calls_played_again_fail_even_with_a_single_row(kept: int) -> None:
    stock: list[torch.Tensor] = []

    def replay(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        if len(stock) < kept:
            stock.append(plain(probs, generator))
            return stock[-1]
        return stock[int(torch.randint(kept, (), generator=generator))]

    case = judge_for(defined("probs")).open_case(Tolerance(1e-2, 1e-2))
    heard(case, replay, 16, 1)

    verdict = case.close()

    assert not verdict.is_accepted
    assert "tokens of earlier calls again" in verdict.explanation


def test_the_number_of_calls_follows_the_settings_and_the_number_of_rows() -> None:
    one, many = rows(1, 10), rows(64, 10)

    assert judge_for(defined("probs")).repeats([one]) == 1000
    assert judge_for(defined("probs")).repeats([many]) == 100
    assert judge_for(defined("probs"), {"sampling_validation_trials": 7}).repeats([many]) == 16


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (
            {"sampling_tvd_threshold": 2.0},
            "sampling_tvd_threshold must be between 0 and 1, not 2.0",
        ),
        ({"sampling_validation_trials": 0}, "sampling_validation_trials must be at least 1"),
        ({"sampling_validation_trials": "many"}, "must be a number, not 'many'"),
        ({"sampling_false_alarm_rate": 0.0}, "must lie between 0 and 1"),
    ],
)
def test_a_setting_that_cannot_be_is_named(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        judge_for(defined("probs"), extra)


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (defined("x"), "needs an input named 'probs' or 'logits'"),
        (defined("probs", outputs={"a": "int32", "b": "int32"}), "exactly one output"),
        (defined("probs", outputs={"a": "float32"}), "drawn tokens are integers; 'a' is float32"),
    ],
)
def test_a_definition_that_is_no_sampler_is_told_what_is_missing(
    definition: Definition, said: str
) -> None:
    with pytest.raises(DatasetError, match=said):
        judge_for(definition)


def test_two_hundred_thousand_tokens_take_seconds() -> None:
    probs = rows(8, 200_000)
    started = time.perf_counter()

    verdict = repeated(plain, probs, 20)

    assert verdict.is_accepted
    assert time.perf_counter() - started < 10


def test_settings_know_every_parameter_of_a_sampler() -> None:
    known = {name for name in JUDGE_PARAMETERS if name.startswith("sampling_")}

    assert known == set(SamplingRules.__slots__)
