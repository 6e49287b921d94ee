"""`shadow` and `verify_first_n`: a solution beside the original."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from flashinfer_bench.apply import ApplyConfig, ApplyRuntime, ApplyStats, apply
from tests.unit.apply.datasets import dataset, definition, solution, trace

TWO, THREE = torch.ones(2, 4), torch.ones(3, 4)
RIGHT = solution("right", "def run(A, B):\n    return A + B\n")
CLOSE = solution("close", "def run(A, B):\n    return (A + B) * 1.001\n")
WRONG = solution("wrong", "def run(A, B):\n    return (A + B) * 1.5\n")


def runtime(only: Any, **config: Any) -> ApplyRuntime:
    traces = [trace(only, {"M": 2}), trace(only, {"M": 3})]
    return ApplyRuntime(dataset([only], traces), ApplyConfig(**config))


def adds(A: Any, B: Any) -> Any:
    return A + B


def answers(running: ApplyRuntime, *calls: Any) -> list[float]:
    with running:
        return [float(apply("add", (each, each), fallback=adds)[0, 0]) for each in calls]


def test_in_shadow_the_original_answers_every_call_and_the_solution_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    running = runtime(WRONG, shadow=True)

    assert answers(running, TWO, TWO, THREE) == [2.0, 2.0, 2.0]
    found = running.stats().compared["wrong"]
    assert (found.calls, found.disagreements) == (3, 3)
    assert found.max_absolute_error == 1.0
    assert found.solution_ms > 0
    assert found.original_ms > 0
    assert "'C'" in found.first_disagreement
    assert caplog.text.count("wrong disagrees with the original") == 1
    assert running.stats().quarantined == {}


def test_in_shadow_a_solution_within_tolerance_agrees() -> None:
    running = runtime(CLOSE, shadow=True)
    strict = runtime(CLOSE, shadow=True, verify_rtol=1e-6, verify_atol=1e-6)

    answers(running, TWO)
    answers(strict, TWO)

    assert running.stats().compared["close"].disagreements == 0
    assert strict.stats().compared["close"].disagreements == 1


def test_a_solution_that_agrees_n_times_answers_from_then_on_each_size_for_itself() -> None:
    running = runtime(CLOSE, verify_first_n=2)

    got = answers(running, TWO, TWO, TWO, THREE, THREE, THREE)

    assert [round(each, 3) for each in got] == [2.0, 2.0, 2.002] * 2
    stats = running.stats()
    assert (stats.hits, stats.misses) == (2, 4)
    assert stats.misses_by_definition == {"add": {"compared with the original": 4}}


def test_a_solution_that_disagrees_is_put_under_quarantine_and_never_answers() -> None:
    running = runtime(WRONG, verify_first_n=1)

    assert answers(running, TWO, TWO, THREE) == [2.0, 2.0, 2.0]
    (reason,) = running.stats().quarantined.values()
    assert reason.startswith("disagrees with the original")


def test_a_solution_that_raises_while_it_is_compared_is_put_under_quarantine() -> None:
    running = runtime(
        solution("raises", "def run(A, B):\n    raise ValueError('no')\n"), shadow=True
    )

    assert answers(running, TWO, TWO) == [2.0, 2.0]
    assert running.stats().quarantined == {"raises": "raised ValueError: no"}


def test_what_a_compared_solution_does_to_its_inputs_the_original_does_not_see() -> None:
    spoils = solution("spoils", "def run(A, B):\n    C = A + B\n    A.fill_(99)\n    return C\n")
    mine = torch.ones(2, 4)

    assert answers(runtime(spoils, shadow=True), mine) == [2.0]
    assert torch.equal(mine, TWO)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("A[:1] + B[:1]", "float32[1, 4]"),
        ("(A + B).double()", "float64[2, 4]"),
        ("(A, B)", "it gave 2 values for 1 outputs"),
        ("None", "missing"),
    ],
)
def test_another_shape_dtype_or_number_of_outputs_is_a_disagreement(
    returned: str, said: str
) -> None:
    running = runtime(solution("odd", f"def run(A, B):\n    return {returned}\n"), shadow=True)

    answers(running, TWO)

    assert said in running.stats().compared["odd"].first_disagreement


@pytest.mark.parametrize(("only", "count"), [(RIGHT, 0), (WRONG, 1)])
def test_outputs_passed_in_are_compared_and_hold_the_originals_result(
    only: Any, count: int
) -> None:
    def adds_into(A: Any, B: Any, C: Any) -> None:
        C.copy_(A + B)

    running, out = runtime(only, shadow=True), torch.empty(2, 4)

    with running:
        assert apply("add", (TWO, TWO, out), fallback=adds_into) is None

    assert torch.equal(out, 2 * TWO)
    assert running.stats().compared[only.name].disagreements == count


def test_the_definitions_own_judge_compares() -> None:
    index = {"shape": ["M"], "dtype": "int64"}
    matrix = {"shape": ["M", "N"], "dtype": "float32"}
    exact = definition(judge="exact", inputs={"A": matrix}, outputs={"C": index})
    one_off = solution("one_off", "def run(A):\n    return A.argmax(-1) + 1\n")
    running = ApplyRuntime(
        dataset([one_off], [trace("one_off", {"M": 2})], [exact]), ApplyConfig(shadow=True)
    )

    with running:
        apply("add", (TWO,), fallback=lambda A: A.argmax(-1))

    assert running.stats().compared["one_off"].disagreements == 1


def test_stats_read_as_text_and_as_json() -> None:
    running = runtime(RIGHT)
    answers(running, TWO, TWO, torch.ones(99, 4))

    stats = running.stats()

    assert isinstance(stats, ApplyStats)
    assert stats.hits_by_definition == {"add": {"right": 2}}
    assert stats.time_saved_ms == pytest.approx(2 * (1.0 - 0.5))
    assert stats.to_dict()["misses_by_definition"] == {"add": {"M=99: not measured": 1}}
    assert str(stats).splitlines() == [
        "2 hits, 1 miss; about 1.00 ms saved by the traces' medians",
        "  hit          2  add  right",
        "  miss         1  add  M=99: not measured",
    ]
