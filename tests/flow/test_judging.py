"""Judges, the float64 oracle and unusual draws through the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.bench.outcomes import DatasetFault
from flashinfer_bench.data import Definition, Evaluation, Trace, TraceSet, Workload
from tests.flow.kernels import solution

ROWS = {"shape": ["n", "k"], "dtype": "float32"}
SOFTMAX = """
import torch

def run(x):
    return torch.softmax(x.to(torch.float32), dim=-1)
"""
NAIVE_SOFTMAX = """
import torch

def run(x):
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)
"""
NARROW_SOFTMAX = """
import torch

def run(x):
    return torch.softmax(x.bfloat16(), dim=-1).float()
"""
FUSSY_SOFTMAX = """
import torch

def run(x):
    if not x.any():
        raise ValueError("no work")
    return torch.softmax(x, dim=-1)
"""
NORMALISE = """
import torch

def run(x):
    return x / x.norm(dim=-1, keepdim=True)
"""
SHARP = """
import torch

def run(x):
    return torch.sin(x * 20_000)
"""
SHARP_IN_DOUBLE = """
import torch

def run(x):
    return torch.sin(x.double() * 20_000).float()
"""
ATTENTION = """
import torch

def run(x):
    return torch.softmax(x, dim=-1), torch.logsumexp(x, dim=-1)
"""
ATTENTION_INTO = """
import torch

def run(x, output, lse):
    output.copy_(torch.softmax(x, dim=-1))
    lse.copy_(torch.logsumexp(x, dim=-1))
"""
BEST = """
import torch

def run(x):
    values, indices = x.topk(4)
    return values, indices
"""
BEST_IN_ANOTHER_ORDER = """
import torch

def run(x):
    values, indices = x.topk(4)
    return values.flip(-1), indices.flip(-1)
"""
BEST_BUT_ONE = """
import torch

def run(x):
    values, indices = x.topk(5)
    return values[:, :4].contiguous(), indices[:, [0, 1, 2, 4]].contiguous()
"""
LAST = {"shape": ["n"], "dtype": "float32"}
CHOSEN = {"shape": ["n", "c"], "dtype": "float32"}


def defined(name: str, reference: str, outputs: dict[str, Any], judge: str | None) -> Definition:
    return Definition(
        name=name,
        op_type="op",
        axes={
            "n": {"type": "var"},
            "k": {"type": "const", "value": 100},
            "c": {"type": "const", "value": 4},
        },
        inputs={"x": ROWS},
        outputs=outputs,
        reference=reference,
        judge=judge,
    )


DEFINITIONS = {
    each.name: each
    for each in (
        defined("softmax", SOFTMAX, {"y": ROWS}, None),
        defined("normalise", NORMALISE, {"y": ROWS}, None),
        defined("attention", ATTENTION, {"output": ROWS, "lse": LAST}, "sparse_attention"),
        defined("best", BEST, {"values": CHOSEN, "indices": CHOSEN | {"dtype": "int64"}}, "top_k"),
        defined("sharp", SHARP, {"y": ROWS}, None),
        defined("nobody", SOFTMAX, {"y": ROWS}, "elementvise"),
    )
}


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Benchmark]:
    with opened() as running:
        yield running


def opened(**settings: Any) -> Benchmark:
    workload = Workload(axes={"n": 16}, inputs={"x": {"type": "random"}})
    dataset = TraceSet(
        definitions=DEFINITIONS,
        workloads={name: [Trace(definition=name, workload=workload)] for name in DEFINITIONS},
    )
    quick = {
        "warmup_runs": 2,
        "iterations": 10,
        "num_trials": 1,
        "timeout_seconds": 30,
        "threads": 1,
        "disturbed_repeats": 0,
    }
    return Benchmark(dataset, BenchmarkConfig(**quick, **settings), device="cpu")


def judged(benchmark: Benchmark, definition: str, source: str, *, into: bool = False) -> Evaluation:
    candidate = solution(source, definition=definition, into=into)
    (trace,) = benchmark.run_solution(candidate, dump_traces=False)
    return trace.evaluation


# ------------------------------------------------------------------ unusual draws


def test_an_honest_kernel_passes_every_family_of_unusual_inputs(benchmark: Benchmark) -> None:
    found = judged(benchmark, "softmax", SOFTMAX)

    assert found.status == "PASSED"
    assert found.notes == []
    assert found.correctness.extra["unusual"] == {
        "large": "passed",
        "tiny": "passed",
        "zeros": "passed",
        "repeated": "passed",
    }


def test_a_kernel_that_overflows_on_large_inputs_passes_with_a_note(benchmark: Benchmark) -> None:
    found = judged(benchmark, "softmax", NAIVE_SOFTMAX)

    unusual = found.correctness.extra["unusual"]
    assert found.status == "PASSED"
    assert [note.code for note in found.notes] == ["unusual_draw"]
    assert found.notes[0].evidence.startswith("large: failed: output 'y'")
    assert unusual["large"].startswith("failed: output 'y'")
    assert unusual["tiny"] == "passed"


def test_a_kernel_that_raises_on_zeros_passes_with_a_note(benchmark: Benchmark) -> None:
    found = judged(benchmark, "softmax", FUSSY_SOFTMAX)

    assert found.status == "PASSED"
    assert found.correctness.extra["unusual"]["zeros"] == "failed: ValueError: no work"


def test_a_family_is_skipped_where_the_reference_itself_has_no_answer(benchmark: Benchmark) -> None:
    found = judged(benchmark, "normalise", NORMALISE)

    assert found.status == "PASSED"
    assert found.notes == []
    assert found.correctness.extra["unusual"]["zeros"] == "skipped: the reference is not finite"


def test_what_hangs_on_the_last_bits_is_not_held_against_anyone(benchmark: Benchmark) -> None:
    same, other = (judged(benchmark, "sharp", each) for each in (SHARP, SHARP_IN_DOUBLE))

    found = [each.correctness.extra["unusual"]["large"] for each in (same, other)]
    assert [same.status, other.status] == ["PASSED", "PASSED"]
    assert found[0] == "passed"
    assert found[1].startswith("skipped: the")
    assert same.notes == other.notes == []


@pytest.mark.full
def test_families_with_ties_are_skipped_where_one_answer_is_right(benchmark: Benchmark) -> None:
    definition = DEFINITIONS["best"].model_copy(update={"name": "best", "judge": "elementwise"})
    workload = Workload(axes={"n": 16}, inputs={"x": {"type": "random"}})
    dataset = TraceSet(
        definitions={"best": definition},
        workloads={"best": [Trace(definition="best", workload=workload)]},
    )
    config = BenchmarkConfig(warmup_runs=1, iterations=10, num_trials=1, threads=1)
    with Benchmark(dataset, config, device="cpu") as running:
        unusual = judged(running, "best", BEST).correctness.extra["unusual"]

    assert unusual["zeros"] == "skipped: equal values make ties, and the judge wants one answer"
    assert unusual["large"] == "passed"


@pytest.mark.full
def test_strict_turns_a_failed_family_into_a_failure() -> None:
    with opened(strict=True) as running:
        naive, honest = (judged(running, "softmax", each) for each in (NAIVE_SOFTMAX, SOFTMAX))

    assert naive.status == "INCORRECT_NUMERICAL"
    assert "notes count as failures here: unusual_draw" in naive.log
    assert honest.status == "PASSED"


@pytest.mark.full
def test_without_audit_there_are_no_unusual_draws() -> None:
    with opened(audit=False) as running:
        found = judged(running, "softmax", NAIVE_SOFTMAX)

    assert found.status == "PASSED"
    assert found.notes == []
    assert "unusual" not in found.correctness.extra


# ------------------------------------------------------------------ precision


def test_a_kernel_in_fewer_bits_passes_and_its_precision_shows(benchmark: Benchmark) -> None:
    honest = judged(benchmark, "softmax", SOFTMAX).correctness.extra["precision"]
    narrow = judged(benchmark, "softmax", NARROW_SOFTMAX).correctness.extra["precision"]

    assert 0 < honest["ratio"] < 2
    assert narrow["ratio"] > 1000


@pytest.mark.full
def test_a_limit_on_the_precision_ratio_fails_what_is_beyond_it() -> None:
    with opened(max_precision_ratio=10.0) as running:
        narrow, honest = (judged(running, "softmax", each) for each in (NARROW_SOFTMAX, SOFTMAX))

    assert narrow.status == "INCORRECT_NUMERICAL"
    assert "times the reference's own; 10 is allowed" in narrow.log
    assert honest.status == "PASSED"


@pytest.mark.parametrize(
    ("definition", "source", "into"),
    [
        ("attention", ATTENTION, False),
        ("attention", ATTENTION_INTO, True),
        ("best", BEST_IN_ANOTHER_ORDER, False),
    ],
    ids=["tuple", "destinations", "top-k in another order"],
)
def test_precision_is_told_however_outputs_come(
    benchmark: Benchmark, definition: str, source: str, into: bool
) -> None:
    found = judged(benchmark, definition, source, into=into)

    assert found.status == "PASSED", found.log
    assert found.correctness.extra["precision"]["ratio"] < 2


# ------------------------------------------------------------------ judges


@pytest.mark.parametrize(
    "returned", ["output", "(output,)", "(output, None)", "(output, torch.logsumexp(x, dim=-1))"]
)
def test_a_sparse_attention_kernel_may_leave_the_log_sum_exp_out(
    benchmark: Benchmark, returned: str
) -> None:
    source = (
        f"import torch\ndef run(x):\n    output = torch.softmax(x, dim=-1)\n    return {returned}\n"
    )

    assert judged(benchmark, "attention", source).status == "PASSED"


@pytest.mark.parametrize(
    ("returned", "status"),
    [
        ("(output, output.sum(-1))", "INCORRECT_NUMERICAL"),
        ("(None, torch.logsumexp(x, dim=-1))", "RUNTIME_ERROR"),
        ("()", "INCORRECT_SHAPE"),
        ("(output, torch.logsumexp(x, dim=-1), output)", "INCORRECT_SHAPE"),
    ],
)
def test_what_a_sparse_attention_kernel_does_return_must_be_right(
    benchmark: Benchmark, returned: str, status: str
) -> None:
    source = (
        f"import torch\ndef run(x):\n    output = torch.softmax(x, dim=-1)\n    return {returned}\n"
    )

    assert judged(benchmark, "attention", source).status == status


def test_the_best_may_come_in_any_order_and_nothing_else_may(benchmark: Benchmark) -> None:
    right = judged(benchmark, "best", BEST_IN_ANOTHER_ORDER)
    wrong = judged(benchmark, "best", BEST_BUT_ONE)

    assert right.status == "PASSED", right.log
    assert wrong.status == "INCORRECT_NUMERICAL"
    assert "is not as good as" in wrong.log


def test_a_judge_there_is_not_is_the_datasets_fault_and_is_named() -> None:
    workload = Workload(axes={"n": 16}, inputs={"x": {"type": "random"}})
    dataset = TraceSet(
        definitions={"nobody": DEFINITIONS["nobody"]},
        solutions={"nobody": [solution(SOFTMAX, definition="nobody")]},
        workloads={"nobody": [Trace(definition="nobody", workload=workload)]},
    )
    with Benchmark(dataset, BenchmarkConfig(threads=1), device="cpu") as running:
        (step,) = running.run(running.plan(), dump_traces=False)

    assert isinstance(step.outcome, DatasetFault)
    assert step.outcome.explanation.startswith(
        "nobody: no judge named 'elementvise'; did you mean 'elementwise'?"
    )
