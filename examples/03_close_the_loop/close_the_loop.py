"""Trace the model, measure its kernels, put the best ones back, and see what that is worth.

    python close_the_loop.py

Every step but the last is a command of `flashinfer-bench`, shown as it runs.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import ops
import torch
from model import Decoder, Sizes, built, generate

import flashinfer_bench as fib

HERE = Path(__file__).resolve().parent
MODEL = "tiny-decoder"
TOLERANCE = 1e-4  # of the largest score: sums in another order


class Measured(NamedTuple):
    """One pass through the model, plain and applied, in turns."""

    plain_ms: float
    applied_ms: float
    speedup: float
    """Median of the pairs' ratios."""
    interval: tuple[float, float]
    difference: float
    """Largest one of the scores, relative to the largest score."""
    hits: int
    lookup_us: float
    """What a call takes beyond its kernel."""


def main() -> None:
    options = arguments()
    dataset = options.out / "dataset"
    shutil.rmtree(dataset, ignore_errors=True)
    shutil.copytree(HERE / "dataset", dataset)

    passes = [f"--{name}={getattr(options, name)}" for name in ("layers", "prompt", "tokens")]
    program = [sys.executable, str(HERE / "generate.py"), *passes]
    command("trace", "--local", dataset, "--model", MODEL, "--", *program)
    command("run", "--local", dataset, "--threads", 1, *shlex.split(options.run))
    command("report", "model", "--local", dataset)

    told = command("report", "model", "--local", dataset, "--json", shows=False)
    worth = json.loads(told)["models"][0]
    torch.set_num_threads(1)
    model, prompt = built(Sizes(layers=options.layers), options.prompt)
    norm_ms = next(
        each["best_ms"]
        for each in worth["kernels"]
        if each["kernel"] == "rmsnorm_h128" and each["axes"] == {"tokens": 1}
    )
    found = measure(model, prompt, options, dataset, norm_ms)
    show(options, worth, found)
    if found.difference > TOLERANCE:
        sys.exit("error: the applied model computes something else")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", type=int, default=Sizes.layers)
    parser.add_argument("--prompt", type=int, default=128, help="tokens to read")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to generate")
    parser.add_argument("--rounds", type=int, default=21, help="pairs of passes, plain and applied")
    parser.add_argument("--run", default="", help="more options of `flashinfer-bench run`")
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder that takes it all")
    return parser.parse_args()


def command(*words: object, shows: bool = True) -> str:
    """Run a command of flashinfer-bench; gives its stdout where it is not shown."""
    line = ["flashinfer-bench", *map(str, words)]
    if shows:
        print(f"\n$ {shlex.join(line)}", flush=True)
    run = [sys.executable, "-m", "flashinfer_bench", *line[1:]]
    done = subprocess.run(run, stdout=None if shows else subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: {line[1]} ended with exit code {done.returncode}")
    return done.stdout


def measure(
    model: Decoder,
    prompt: torch.Tensor,
    options: argparse.Namespace,
    dataset: Path,
    norm_ms: float,
) -> Measured:
    """Run passes in turns, so that a machine that changes its pace changes it for both."""
    expected = generate(model, prompt, options.tokens)
    runtime = fib.enable_apply(dataset)
    scores = generate(model, prompt, options.tokens)
    lookup_us = lookup(norm_ms)
    before = runtime.stats().hits
    generate(model, prompt, options.tokens)
    hits = runtime.stats().hits - before
    pairs = []
    for _ in range(options.rounds):
        applied_ms = pass_ms(model, prompt, options.tokens)
        runtime.stop()
        pairs.append((pass_ms(model, prompt, options.tokens), applied_ms))
        runtime.start()
    runtime.stop()
    ratios = sorted(plain / applied for plain, applied in pairs)
    return Measured(
        plain_ms=statistics.median(plain for plain, _ in pairs),
        applied_ms=statistics.median(applied for _, applied in pairs),
        speedup=statistics.median(ratios),
        interval=interval_of_median(ratios),
        difference=float((scores - expected).abs().max() / expected.abs().max()),
        hits=hits,
        lookup_us=lookup_us,
    )


def pass_ms(model: Decoder, prompt: torch.Tensor, tokens: int) -> float:
    """Time one pass: of the one thread that computes, so that other programs count less."""
    started_s = time.thread_time()
    generate(model, prompt, tokens)
    return (time.thread_time() - started_s) * 1e3


@torch.inference_mode()
def lookup(norm_ms: float) -> float:
    """Time what an applied call takes beyond its kernel, in microseconds: the smallest kernel's, in a loop."""
    x, weight = torch.randn(1, Sizes.hidden), torch.ones(Sizes.hidden)
    calls, repeats = 1000, []
    for _ in range(9):
        started_s = time.thread_time()
        for _ in range(calls):
            ops.rms_norm(x, weight, 1e-5)
        repeats.append((time.thread_time() - started_s) / calls)
    return max(0.0, statistics.median(repeats) * 1e6 - norm_ms * 1e3)


def interval_of_median(values: list[float]) -> tuple[float, float]:
    """Give the order statistics that hold the median with 95%, by the binomial's normal approximation."""
    reach = 0.98 * len(values) ** 0.5
    low = max(0, round(len(values) / 2 - reach) - 1)
    high = min(len(values) - 1, round(len(values) / 2 + reach))
    return values[low], values[high]


def show(options: argparse.Namespace, worth: dict, found: Measured) -> None:
    """Print predicted against measured."""
    saved_ms = worth["before_ms"] - worth["after_ms"]
    kernels_ms = found.plain_ms - saved_ms
    calls_ms = kernels_ms + found.hits * found.lookup_us / 1e3
    low, high = found.interval
    print(f"\n{MODEL}: {options.prompt} tokens read, {options.tokens} generated, one thread")
    rows = [
        ("measured, plain PyTorch", found.plain_ms, ""),
        ("predicted, kernels alone", kernels_ms, f"{found.plain_ms / kernels_ms:.2f}x"),
        ("predicted, with what calls cost", calls_ms, f"{found.plain_ms / calls_ms:.2f}x"),
        (
            "measured, applied",
            found.applied_ms,
            f"{found.speedup:.2f}x [{low:.2f}, {high:.2f}]",
        ),
    ]
    print(f"  {'':32}{'one pass':>11}  speedup")
    for what, pass_time_ms, speedup in rows:
        print(f"  {what:32}{pass_time_ms:8.1f} ms  {speedup}")
    print(
        f"  {found.hits:,} calls were answered by kernels, {found.lookup_us:.1f} µs each beyond the kernel"
    )
    print(f"  largest difference of scores: {found.difference:.1e} of the largest score")


if __name__ == "__main__":
    main()
