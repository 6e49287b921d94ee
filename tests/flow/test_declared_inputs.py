"""Paged attention over drawn index pointers and page tables, with real workers: nothing comes from a file."""

from __future__ import annotations

from typing import Any

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import Definition, Solution, Trace, TraceSet, Workload
from tests.flow.kernels import quick, solution

REFERENCE = """
import torch


def run(q, cache, indptr, pages, scale):
    assert indptr[0] == 0 and indptr[-1] == len(pages) and bool((indptr.diff() > 0).all())
    assert len(set(pages.tolist())) == len(pages) and 0 <= int(pages.min())
    out = torch.empty_like(q)
    for i in range(len(q)):
        taken = cache[pages[indptr[i] : indptr[i + 1]].long()].flatten(0, 1)
        weights = torch.softmax(scale * (taken @ q[i]), dim=0)
        out[i] = weights @ taken
    return out
"""
GATHERED = """
import torch


def run(q, cache, indptr, pages, scale):
    lengths = indptr.diff().long()
    owner = torch.repeat_interleave(torch.arange(len(q)), lengths)
    taken = cache[pages.long()]
    scores = scale * torch.einsum("psd,pd->ps", taken, q[owner])
    weights = scores.exp()
    total = torch.zeros(len(q)).index_add(0, owner, weights.sum(-1))
    out = torch.zeros_like(q).index_add(0, owner, torch.einsum("ps,psd->pd", weights, taken))
    return out / total[:, None]
"""
REMEMBERS_THE_TABLE = GATHERED.replace("def run(", "kept = {}\n\n\ndef run(").replace(
    "taken = cache[pages.long()]",
    "pages = kept.setdefault(len(pages), pages.clone())\n    taken = cache[pages.long()]",
)

PAGED = Definition.model_validate(
    {
        "name": "paged",
        "op_type": "paged",
        "axes": {
            "batch": {"type": "var"},
            "used": {"type": "var"},
            "num_pages": {"type": "var"},
            "ends": {"type": "expr", "expression": "batch + 1"},
            "page": {"type": "const", "value": 4},
            "dim": {"type": "const", "value": 32},
        },
        "inputs": {
            "q": {"shape": ["batch", "dim"], "dtype": "float32"},
            "cache": {"shape": ["num_pages", "page", "dim"], "dtype": "float32"},
            "indptr": {"shape": ["ends"], "dtype": "int32", "role": "metadata"},
            "pages": {"shape": ["used"], "dtype": "int32"},
            "scale": {"shape": None, "dtype": "float32"},
        },
        "outputs": {"out": {"shape": ["batch", "dim"], "dtype": "float32"}},
        "reference": REFERENCE,
    }
)


def drawn(**distribution: Any) -> dict[str, Any]:
    return {"type": "random", "distribution": distribution}


def workload(**changes: Any) -> Workload:
    inputs = {
        "q": {"type": "random"},
        "cache": {"type": "random"},
        "indptr": drawn(type="index_pointers", total="used", longest="used // 2"),
        "pages": drawn(type="page_table", pages="num_pages"),
        "scale": drawn(type="uniform", low=0.1, high=0.2),
    }
    axes = {"batch": 7, "used": 60, "num_pages": 90}
    return Workload.model_validate({"axes": axes, "inputs": inputs | changes})


def evaluated(source: str, given: Workload) -> Trace | None:
    candidate: Solution = solution(source, definition="paged")
    traces = TraceSet(
        definitions={"paged": PAGED},
        solutions={"paged": [candidate]},
        workloads={"paged": [Trace(definition="paged", workload=given)]},
    )
    config = quick(num_trials=2, iterations=30)
    with Benchmark(traces, config, device="cpu") as benchmark:
        found = benchmark.run_all(dump_traces=False).traces.get("paged", [])
    return found[0] if found else None


def status(trace: Trace | None) -> str:
    assert trace is not None
    assert trace.evaluation is not None
    return trace.evaluation.status


def test_a_reference_gets_legal_pages_in_every_call() -> None:
    trace = evaluated(GATHERED, workload())

    assert status(trace) == "PASSED"


def test_a_kernel_that_remembers_the_page_table_is_found_out() -> None:
    trace = evaluated(REMEMBERS_THE_TABLE, workload())

    assert status(trace) == "INCORRECT_NUMERICAL"


@pytest.mark.full
def test_the_same_reference_cannot_take_pages_drawn_from_anything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trace = evaluated(GATHERED, workload(pages={"type": "random"}))

    assert trace is None
    assert "the dataset is at fault" in caplog.text


@pytest.mark.full
def test_a_distribution_that_cannot_be_drawn_is_the_datasets_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trace = evaluated(GATHERED, workload(pages=drawn(type="page_table", pages="batch")))

    assert trace is None
    assert "'page_table' names 60 pages and there are 7" in caplog.text
