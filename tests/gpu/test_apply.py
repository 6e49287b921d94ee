"""Apply on a card: its own traces, its own memory, CUDA graphs."""

from __future__ import annotations

from typing import Any

import torch

from flashinfer_bench.apply import ApplyConfig, ApplyRuntime, apply
from tests.unit.apply.datasets import HERE, dataset, solution, trace

INTO = solution("into", "def run(A, B, C):\n    C.copy_(A).add_(B)\n", into=True)


def runtime(**config: Any) -> ApplyRuntime:
    card = torch.cuda.get_device_properties(0).name
    traces = [trace("into", {"M": 2}, hardware=card)]
    return ApplyRuntime(dataset([INTO], traces), ApplyConfig(**config))


def test_a_cards_traces_answer_the_cards_tensors_and_no_others() -> None:
    there = torch.ones(2, 4, device="cuda")

    with runtime() as running:
        answers = [apply("add", (there, there), fallback=torch.add) for _ in range(2)]
        apply("add", (there.cpu(), there.cpu()), fallback=torch.add)

    assert torch.cuda.get_device_properties(0).name != HERE
    assert all(each.device == there.device for each in answers)
    assert all(torch.equal(each, 2 * there) for each in answers)
    assert (running.stats().hits, running.stats().misses) == (2, 1)


def test_while_a_graph_is_recorded_nothing_is_built_and_what_is_built_is_recorded() -> None:
    A = torch.ones(2, 4, device="cuda")
    seen = []

    with runtime(aot_ratio=0) as running:
        for _ in range(2):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                answer = apply("add", (A, A), fallback=torch.add)
            graph.replay()
            seen.append((running.stats().hits, bool((answer == 2).all())))
            apply("add", (A, A), fallback=torch.add)

    assert seen == [(0, True), (2, True)]


def test_a_comparison_waits_for_the_card() -> None:
    A = torch.ones(2, 4, device="cuda")

    with runtime(verify_first_n=1) as running:
        answers = [apply("add", (A, A), fallback=torch.add) for _ in range(2)]

    assert all(torch.equal(each, 2 * A) for each in answers)
    assert running.stats().compared["into"].disagreements == 0
    assert running.stats().hits == 1
