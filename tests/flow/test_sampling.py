"""Samplers through the real engine: honest ones pass, and what only looks like sampling does not."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.data import Definition, Evaluation, Trace, TraceSet, Workload
from tests.flow.kernels import solution
from tests.marks import mostly_full

VOCABULARY = 4096
ROWS = {"probs": {"shape": ["batch_size", "vocab_size"], "dtype": "float32"}}
TOP_K = {"top_k": {"shape": ["batch_size"], "dtype": "int32"}}
TOP_P = {"top_p": {"shape": ["batch_size"], "dtype": "float32"}}
FILTERS = """
import torch

def keep_k(probs, top_k):
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    place = torch.arange(probs.shape[-1])
    ordered = ordered * (place < top_k[:, None])
    return torch.zeros_like(probs).scatter_(-1, order, ordered)

def keep_p(probs, top_p):
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    ordered = ordered * (before <= top_p[:, None])
    return torch.zeros_like(probs).scatter_(-1, order, ordered)

def draw(weights):
    return torch.multinomial(weights, 1)[:, 0]
"""
TOP_K_RUN = FILTERS + "\ndef run(probs, top_k):\n    return draw(keep_k(probs, top_k))\n"
TOP_P_RUN = FILTERS + "\ndef run(probs, top_p):\n    return draw(keep_p(probs, top_p))\n"
BOTH_RUN = FILTERS + (
    "\ndef run(probs, top_k, top_p):\n"
    "    kept = keep_k(probs, top_k)\n"
    "    return draw(keep_p(kept / kept.sum(-1, keepdim=True), top_p))\n"
)
PLAIN_RUN = FILTERS + "\ndef run(probs):\n    return draw(probs)\n"


def defined(name: str, inputs: dict[str, Any], reference: str) -> Definition:
    return Definition(
        name=name,
        op_type="sampling",
        axes={"batch_size": {"type": "var"}, "vocab_size": {"type": "const", "value": VOCABULARY}},
        inputs=inputs,
        outputs={"samples": {"shape": ["batch_size"], "dtype": "int64"}},
        reference=reference,
    )


DEFINITIONS = {
    "sampling_from_probs": defined("sampling_from_probs", ROWS, PLAIN_RUN),
    "top_k_sampling_from_probs": defined("top_k_sampling_from_probs", ROWS | TOP_K, TOP_K_RUN),
    "top_p_sampling_from_probs": defined("top_p_sampling_from_probs", ROWS | TOP_P, TOP_P_RUN),
    "top_k_top_p_sampling_from_probs": defined(
        "top_k_top_p_sampling_from_probs", ROWS | TOP_K | TOP_P, BOTH_RUN
    ),
}
RANDOM = {
    "probs": {"type": "random"},
    "top_k": {"type": "random", "distribution": {"type": "integers", "low": 20, "high": 200}},
    "top_p": {"type": "random", "distribution": {"type": "uniform", "low": 0.3, "high": 0.9}},
}
GUMBEL = """
import torch

def run(probs, top_k):
    least = probs.topk(int(top_k.max())).values.gather(-1, (top_k - 1).long()[:, None])
    noise = torch.empty_like(probs).exponential_()
    return torch.where(probs >= least, probs / noise, 0.0).argmax(-1)
"""
IGNORES_TOP_K = FILTERS + "\ndef run(probs, top_k):\n    return draw(probs)\n"
IGNORES_TOP_P = FILTERS + "\ndef run(probs, top_p):\n    return draw(probs)\n"
ARGMAX = "def run(probs, *limits):\n    return probs.argmax(-1)\n"
ARGMAX_OF_ONE = "def run(probs):\n    return probs.argmax(-1)\n"
UNIFORM = """
import torch

def run(probs):
    return torch.randint(probs.shape[-1], (len(probs),))
"""
UNIFORM_WITHIN_TOP_K = FILTERS + (
    "\ndef run(probs, top_k):\n    return draw((keep_k(probs, top_k) > 0).float())\n"
)
DRAWS_ONCE = FILTERS + textwrap.dedent(
    """
    drawn = {}

    def run(probs):
        seen = float(probs[0, :64].sum())
        if seen not in drawn:
            drawn[seen] = draw(probs)
        return drawn[seen].clone()
    """
)
REPLAYS_IN_TIMED_CALLS = FILTERS + textwrap.dedent(
    """
    returned = {}

    def run(probs):
        before = returned.setdefault(len(probs), [])
        is_checked = len(before) < (1002 if len(probs) == 1 else 130)
        before.append(draw(probs) if is_checked else before[-1])
        return before[-1].clone()
    """
)


def dataset(rows_of_plain: tuple[int, ...] = (1, 8)) -> TraceSet:
    """One workload each: top-k and top-p filters over eight rows, plain sampling from one and from eight."""
    workloads = {
        name: [
            Trace(
                definition=name,
                workload=Workload(
                    axes={"batch_size": rows},
                    inputs={each: RANDOM[each] for each in definition.inputs},
                ),
            )
            for rows in (rows_of_plain if name == "sampling_from_probs" else (8,))
        ]
        for name, definition in DEFINITIONS.items()
    }
    return TraceSet(definitions=DEFINITIONS, workloads=workloads)


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Benchmark]:
    config = BenchmarkConfig.default(
        warmup_runs=2, iterations=10, num_trials=1, timeout_seconds=60, threads=1, seed=7
    )
    with Benchmark(dataset(), config, device="cpu") as running:
        yield running


@pytest.fixture(params=mostly_full([8, 1], 8), ids=["eight rows", "one row"])
def long_benchmark(request: pytest.FixtureRequest) -> Iterator[Benchmark]:
    """As many samples as leave a replaying sampler of one row no chance: 15 are kept on average, 4 convict."""
    config = BenchmarkConfig.default(
        warmup_runs=2, iterations=120, num_trials=3, timeout_seconds=60, threads=1
    )
    with Benchmark(dataset((request.param,)), config, device="cpu") as running:
        yield running


def judged(benchmark: Benchmark, name: str, source: str) -> list[Evaluation]:
    traces = benchmark.run_solution(solution(source, definition=name), dump_traces=False)
    return [trace.evaluation for trace in traces]


@pytest.mark.parametrize(
    ("name", "source"),
    mostly_full(
        [
            *((definition.name, definition.reference) for definition in DEFINITIONS.values()),
            ("top_k_sampling_from_probs", GUMBEL),
        ],
        ("top_k_sampling_from_probs", GUMBEL),
    ),
    ids=[*DEFINITIONS, "top_k by the Gumbel trick"],
)
def test_an_honest_sampler_passes_and_its_distance_is_told(
    benchmark: Benchmark, name: str, source: str
) -> None:
    for found in judged(benchmark, name, source):
        assert found.status == "PASSED", found.log
        assert found.performance.speedup_factor > 0
        assert found.notes == []
        assert 0 <= found.correctness.extra["tvd"] < 0.6
        assert len(found.correctness.extra["tvds_per_batch"]) in (1, 8)


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("top_k_sampling_from_probs", ARGMAX, "not drawn as often as they should be"),
        ("top_p_sampling_from_probs", ARGMAX, "not drawn as often as they should be"),
        ("sampling_from_probs", ARGMAX_OF_ONE, "not drawn as often as they should be"),
        ("sampling_from_probs", UNIFORM, "not drawn as often as they should be"),
        ("top_k_sampling_from_probs", UNIFORM_WITHIN_TOP_K, "not drawn as often"),
        ("top_k_sampling_from_probs", IGNORES_TOP_K, "outside what may be drawn"),
        ("top_p_sampling_from_probs", IGNORES_TOP_P, "outside what may be drawn"),
        ("sampling_from_probs", DRAWS_ONCE, "not drawn as often as they should be"),
    ],
    ids=[
        "argmax for top-k",
        "argmax for top-p",
        "argmax",
        "uniform",
        "uniform within top-k",
        "no top-k",
        "no top-p",
        "one draw for equal inputs",
    ],
)
def test_a_dishonest_sampler_is_wrong(
    benchmark: Benchmark, name: str, source: str, said: str
) -> None:
    for found in judged(benchmark, name, source):
        assert found.status == "INCORRECT_NUMERICAL"
        assert said in found.log


def test_a_sampler_that_is_honest_until_it_is_timed_fails_the_audit(
    long_benchmark: Benchmark,
) -> None:
    for found in judged(long_benchmark, "sampling_from_probs", REPLAYS_IN_TIMED_CALLS):
        assert found.status == "INCORRECT_NUMERICAL"
        assert "failed_audit" in found.log
