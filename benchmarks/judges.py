"""What judging costs: each judge's time on its outputs, and sampling's as a multiple of one softmax.

    python benchmarks/judges.py [--vocabulary 200000] [--rows 8] [--calls 100]

A softmax over the same rows is the yardstick: it reads and writes every probability about once.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.data import Definition
from flashinfer_bench.judging import JudgedCall, Tolerance
from flashinfer_bench.judging.judges import judge_for

if TYPE_CHECKING:
    from collections.abc import Callable

REPETITIONS = 5


def main() -> None:
    """Print a line per judge."""
    options = _options()
    torch.manual_seed(0)
    print(f"{options.rows} rows of {options.vocabulary} tokens, {torch.get_num_threads()} threads")
    logits = torch.randn(options.rows, options.vocabulary)
    softmax_ms = _milliseconds(lambda: torch.softmax(logits, dim=-1))
    print(f"{'softmax':<44}{softmax_ms:9.1f} ms")
    for name, milliseconds in _sampling(logits, options.calls).items():
        print(f"{name:<44}{milliseconds:9.1f} ms {milliseconds / softmax_ms:7.1f} softmaxes")
    for name, milliseconds in _others().items():
        print(f"{name:<44}{milliseconds:9.1f} ms")


def _sampling(logits: torch.Tensor, calls: int) -> dict[str, float]:
    probs = torch.softmax(logits, dim=-1)
    found = {}
    for limits in ((), ("top_k",), ("top_p",), ("top_k", "top_p")):
        judge = judge_for(_definition("sampling", ["probs", *limits], ["samples"]))
        values = {"top_k": torch.full((len(probs),), 50), "top_p": torch.full((len(probs),), 0.9)}
        inputs = [probs, *(values[each] for each in limits)]
        allowed = probs.topk(50).values if "top_k" in limits else None
        weights = probs if allowed is None else probs * (probs >= allowed[:, -1:])
        draws = torch.multinomial(weights, calls, replacement=True)
        returned = [[draws[:, call].contiguous()] for call in range(calls)]
        what = " and ".join(limits) or "no limit"
        found[f"sampling, {what}: {calls} calls together"] = _milliseconds(
            lambda: judge.open_case(Tolerance(1e-2, 1e-2)).hear_repeats(inputs, returned)  # noqa: B023
        )
        one = JudgedCall(inputs, returned[0])
        found[f"sampling, {what}: a timed call"] = _milliseconds(
            lambda: judge.open_case(Tolerance(1e-2, 1e-2)).hear(one)  # noqa: B023
        )
    return found


def _others() -> dict[str, float]:
    close = torch.randn(4096, 4096)
    off = close * (1 + 1e-4)
    scores = torch.randn(64, 131_072)
    values, indices = scores.topk(2048)
    examples: dict[str, tuple[str, list[Any], list[Any], list[Any]]] = {
        "elementwise, 16 million floats, all off a bit": ("elementwise", [], [off], [close]),
        "elementwise, 16 million floats, equal": ("elementwise", [], [close.clone()], [close]),
        "exact, 16 million floats, equal": ("exact", [], [close.clone()], [close]),
        "low_bit, 16 million floats": ("low_bit", [], [off], [close]),
        "top_k, 2048 of 131072 in 64 rows, permuted": (
            "top_k",
            [scores],
            [values.flip(-1), indices.flip(-1)],
            [values, indices],
        ),
    }
    found = {}
    for name, (judge, inputs, got, expected) in examples.items():
        names = ["values", "indices"] if judge == "top_k" else ["y"]
        case = judge_for(_definition(judge, ["x"] if inputs else [], names)).open_case(
            Tolerance(1e-2, 1e-2)
        )
        call = JudgedCall(inputs, got, expected)
        found[name] = _milliseconds(lambda: case.hear(call))  # noqa: B023
    return found


def _definition(judge: str, inputs: list[str], outputs: list[str]) -> Definition:
    rows = {"probs": ["r", "n"], "x": ["r", "n"]}
    width = ["r"] if judge == "sampling" else ["r", "k"]
    integers = {"samples", "indices", "top_k"}
    return Definition(
        name="example",
        op_type="example",
        axes={name: {"type": "var"} for name in "rnk"},
        inputs={
            name: {
                "shape": rows.get(name, ["r"]),
                "dtype": "int64" if name in integers else "float32",
            }
            for name in inputs
        },
        outputs={
            name: {"shape": width, "dtype": "int64" if name in integers else "float32"}
            for name in outputs
        },
        reference="def run():\n    return 0\n",
        judge=judge,
    )


def _milliseconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPETITIONS):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--calls", type=int, default=100)
    return parser.parse_args()


if __name__ == "__main__":
    main()
