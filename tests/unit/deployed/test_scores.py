"""The deployed score: nothing wrong changes it, and nothing that is taken away raises it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.deployed.results import (
    AgreementLimits,
    Composition,
    Figure,
    ModelReport,
    ModeResult,
    ModeUse,
    PhaseResult,
    QualityVerdict,
)
from flashinfer_bench.deployed.scores import ModelPlace, deployed_score, places_of

HALVES = {"prefill": 0.5, "decode": 0.5}
SHOWN = Composition("candidate", 1.0, 1.0, 0, 8)
REFUSED = QualityVerdict(
    is_accepted=False,
    why="another model",
    candidate=SHOWN,
    limits=AgreementLimits(0.1, 1.25, 0.1, 1.5, 1, 0),
    baseline=(),
)


def phase(name: str, ratio: float, reach: float = 1.01, old_ms: float = 1.0) -> PhaseResult:
    none = Figure(1.0, None)
    return PhaseResult(
        phase=name,
        old_step_ms=Figure(old_ms, None),
        new_step_ms=none,
        old_tokens_per_s=none,
        new_tokens_per_s=none,
        ratio=ratio,
        interval=(ratio / reach, ratio * reach),
        verdict="",
        predicted=None,
    )


def mode(prefill: float, decode: float, name: str = "eager", old_ms: float = 1.0) -> ModeResult:
    phases = (phase("prefill", prefill, old_ms=old_ms), phase("decode", decode, old_ms=old_ms))
    return ModeResult(name, "passed", "", phases)


def run(model: str, *modes: ModeResult, family: str | None = None) -> ModelReport:
    return ModelReport(
        model=model,
        family=family or model,
        hardware="AMD EPYC",
        device="cpu",
        dtype="float32",
        rows=1,
        prompt=1,
        steps=1,
        threads=1,
        clock="wall",
        rounds=6,
        blocks=1,
        threshold=0.02,
        baseline="",
        candidate="",
        solutions=(),
        shares=HALVES,
        modes=modes,
    )


WRONG = replace(mode(9, 9), status="failed", why="it is another model", quality=REFUSED)
UNUSED = replace(mode(9, 9), use=ModeUse((), {}, (), unused=("silu answered nothing",)))


def test_phases_are_put_together_by_time_and_families_by_a_geometric_mean() -> None:
    runs = [run("llama", mode(2, 4)), run("mixtral", mode(1.5, 1.5))]

    score = deployed_score(runs, places_of(runs))

    assert score.families == pytest.approx({"llama": 1 / (0.25 + 0.125), "mixtral": 1.5})
    assert score.value == pytest.approx(math.sqrt(1.5 / 0.375))
    assert score.as_shipped == pytest.approx(score.value)
    assert score.interval is not None
    assert score.interval[0] < score.value < score.interval[1]
    assert (score.coverage, score.measured) == (1.0, 1.0)


def test_what_is_slower_keeps_the_models_code_and_stands_beside_it_as_shipped() -> None:
    runs = [run("llama", mode(0.5, 2))]

    score = deployed_score(runs, places_of(runs))

    assert score.models[0].phases == {"prefill": 1.0, "decode": 2.0}
    assert score.value == pytest.approx(1 / 0.75)
    assert score.as_shipped == pytest.approx(1 / 1.25)
    assert (score.coverage, score.measured) == (0.5, 1.0)


@pytest.mark.parametrize("failed", [WRONG, UNUSED], ids=["wrong", "unused"])
def test_what_failed_or_was_not_tried_counts_one(failed: ModeResult) -> None:
    places = [ModelPlace(name, name, 1.0, HALVES) for name in ("llama", "mixtral", "gemma")]
    runs = [run("llama", mode(4, 4)), run("mixtral", failed)]

    score = deployed_score(runs, places)

    assert score.value == pytest.approx(4 ** (1 / 3))
    assert score.as_shipped is None
    assert score.coverage == pytest.approx(1 / 3)
    assert [each.why for each in score.models[1:]] != ["", ""]
    assert score.models[2].why == "not tried"


def test_the_mode_counts_in_which_the_baseline_is_fastest() -> None:
    runs = [run("llama", mode(3, 3, old_ms=5.0), mode(1.1, 1.1, "compiled", old_ms=1.0))]

    assert deployed_score(runs, places_of(runs)).value == pytest.approx(1.1)


def test_a_candidate_that_fails_compiled_gains_nothing_as_it_is() -> None:
    runs = [run("llama", mode(3, 3), replace(WRONG, mode="compiled"))]

    assert deployed_score(runs, places_of(runs)).value == 1.0


def test_declared_shares_weigh() -> None:
    places = [
        ModelPlace("llama", "llama", 3.0, {"prefill": 0.0, "decode": 1.0}),
        ModelPlace("mixtral", "mixtral", 1.0, HALVES),
    ]

    score = deployed_score([run("llama", mode(9, 2))], places)

    assert score.value == pytest.approx(2**0.75)


KERNELS = ("a", "b", "c", "d")
PLACES = [
    ModelPlace("llama", "llama", 0.5, {"prefill": 0.2, "decode": 0.8}),
    ModelPlace("mistral", "llama", 0.2, HALVES),
    ModelPlace("mixtral", "mixtral", 0.3, HALVES),
]
RATIOS = st.floats(0.2, 5.0)
RUNS = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from(KERNELS), min_size=1),
        st.sampled_from([each.model for each in PLACES]),
        RATIOS,
        RATIOS,
    ),
    max_size=12,
)


def scored(runs: list[tuple[frozenset[str], str, float, float]]) -> float:
    return deployed_score([run(model, mode(*ratios)) for _, model, *ratios in runs], PLACES).value


@given(RUNS, st.sampled_from(KERNELS))
def test_taking_a_kernel_away_never_raises_it(
    runs: list[tuple[frozenset[str], str, float, float]], kernel: str
) -> None:
    without = [each for each in runs if kernel not in each[0]]

    assert scored(without) <= scored(runs)


@given(RUNS, st.sampled_from(PLACES), st.sampled_from([WRONG, UNUSED]), st.integers(0, 12))
def test_adding_a_wrong_kernel_never_changes_it(
    runs: list[tuple[frozenset[str], str, float, float]],
    place: ModelPlace,
    wrong: ModeResult,
    at: int,
) -> None:
    right = [run(model, mode(*ratios)) for _, model, *ratios in runs]
    with_wrong = [*right[:at], run(place.model, wrong), *right[at:]]

    assert deployed_score(with_wrong, PLACES).value == deployed_score(right, PLACES).value


@given(RUNS)
def test_it_is_never_below_one_and_lies_in_its_interval(
    runs: list[tuple[frozenset[str], str, float, float]],
) -> None:
    score = deployed_score([run(model, mode(*r)) for _, model, *r in runs], PLACES)

    assert score.value >= 1.0
    assert score.interval is not None
    low, high = score.interval
    assert low <= score.value * (1 + 1e-12)
    assert high >= score.value * (1 - 1e-12)
