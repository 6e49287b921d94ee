"""Take prefill and decode of a Llama apart, replace two kernels, and hold the predicted gain against the measured one.

    python served_model.py

Every step but the last is a command of `flashinfer-bench`, shown as it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import llama  # torch reads the number of threads when it is loaded
import torch
from transformers import DynamicCache

import flashinfer_bench as fib

HERE = Path(__file__).resolve().parent
PHASES = ("prefill", "decode")
Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
TOLERANCE = 1e-4  # of the largest score: sums in another order
POINTS = 3.0
SAMPLE_MS = 10.0  # steps are repeated within a sample until it takes about so long


def answered(name: str, function: Function) -> Function:
    """Make a function of rows of tokens that a dataset's definition answers, where apply is enabled."""
    of_rows = fib.apply(name)(function)

    def by_rows(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        width = x.shape[-1]
        return of_rows(x.view(-1, width), other.view(-1, width) if other.dim() > 1 else other).view(
            x.shape
        )

    return by_rows


PLAIN = {"rms_norm": llama.rms_norm, "silu_and_mul": llama.silu_and_mul}
HAND = {each.parent.name for each in (HERE / "solutions").rglob("solution.toml")}
DEFINITIONS = {
    "rms_norm": f"rmsnorm_h{llama.SIZES['hidden_size']}_f32",
    "silu_and_mul": f"silu_and_mul_split_i{llama.SIZES['intermediate_size']}_f32",
}
ANSWERED = {name: answered(DEFINITIONS[name], PLAIN[name]) for name in PLAIN}


class Measured(NamedTuple):
    """One step of a phase, plain and applied, in turns."""

    plain_ms: float
    applied_ms: float
    gain: float
    """Share of the plain step's time that is saved: median of the pairs."""
    interval: tuple[float, float]
    noise: float
    """The same between plain samples that follow each other, without the sign: median of the pairs."""
    difference: float
    """Largest one of the scores, relative to the largest score."""
    hits: int


def main() -> None:
    options = arguments()
    dataset = taken_apart(options)
    command("run", "--local", dataset, "--threads", 1, *shlex.split(options.run))
    command("report", "model", "--local", dataset)
    told = json.loads(command("report", "model", "--local", dataset, "--json", shows=False))
    worths = {each["model"].rpartition("_")[2]: each for each in told["models"]}

    model = llama.Model().model.requires_grad_(False)
    steps = {"prefill": prefill_of(model), "decode": decode_of(model)}
    unchanged = without_hand(dataset)
    apart = []
    found = {phase: measure(steps[phase], options, dataset) for phase in PHASES}
    for phase in PHASES:
        calls = measure(steps[phase], options, unchanged)
        apart.append(show(phase, worths[phase], found[phase], calls))
    if max(each.difference for each in found.values()) > TOLERANCE:
        sys.exit("error: the applied model computes something else")
    if options.check and max(apart) > POINTS:
        sys.exit(f"error: a prediction is more than {POINTS:g} points off")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=151, help="pairs of samples, plain and applied"
    )
    parser.add_argument("--run", default="", help="more options of `flashinfer-bench run`")
    parser.add_argument(
        "--decompose", default="", help="more options of `flashinfer-bench decompose`"
    )
    parser.add_argument("--check", action="store_true", help=f"exit 1 beyond {POINTS:g} points")
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder that takes it all")
    return parser.parse_args()


def taken_apart(options: argparse.Namespace) -> Path:
    """Decompose both phases into one dataset, and put kernels into it: those by hand, and the model's own."""
    dataset = options.out / "dataset"
    shutil.rmtree(dataset, ignore_errors=True)
    phases = ("--phases", ",".join(PHASES), "--merge", dataset)
    more = shlex.split(options.decompose)
    command("decompose", HERE / "llama.py", "--output", options.out, *phases, *more)
    shutil.copytree(HERE / "solutions", dataset / "solutions" / "hand")
    shutil.copytree(HERE / "unchanged", dataset / "solutions" / "unchanged")
    return dataset


def without_hand(dataset: Path) -> Path:
    """Copy the dataset without kernels by hand: calls are answered by what the model does itself."""
    found = dataset.with_name("dataset_unchanged")
    shutil.rmtree(found, ignore_errors=True)
    shutil.copytree(dataset, found)
    shutil.rmtree(found / "solutions" / "hand")
    for file in (found / "traces").rglob("*.jsonl"):
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(each for each in lines if json.loads(each)["solution"] not in HAND))
    return found


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


def prefill_of(model: torch.nn.Module) -> Callable[[], torch.Tensor]:
    """Read a prompt into an empty cache."""
    (tokens,) = llama.get_inputs()

    def step() -> torch.Tensor:
        cache = DynamicCache(config=model.config)
        return model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits

    return step


def decode_of(model: torch.nn.Module) -> Callable[[], torch.Tensor]:
    """Take one token more; the cache is cut back to the prompt, so that each step is the same."""
    (tokens,) = llama.get_inputs()
    cache = DynamicCache(config=model.config)
    model(tokens, past_key_values=cache, use_cache=True)

    def step() -> torch.Tensor:
        said = model(tokens[:, -1:], past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache.crop(-1)
        return said.logits

    return step


@torch.inference_mode()
def measure(
    step: Callable[[], torch.Tensor], options: argparse.Namespace, dataset: Path
) -> Measured:
    """Sample in turns, plain, applied, applied, plain, so that a machine that changes its pace changes it for both."""
    expected = step()
    repeats = max(1, round(SAMPLE_MS / sample_ms(step, 5)))
    with fib.enable_apply(dataset) as runtime, put_in(ANSWERED):
        scores = step()
        before = runtime.stats().hits
        step()
        hits = runtime.stats().hits - before
    plain, applied = [], []
    for at in range(options.rounds):
        for is_applied in (False, True) if at % 2 else (True, False):
            with contextlib.ExitStack() as stack:
                if is_applied:
                    stack.enter_context(runtime)
                    stack.enter_context(put_in(ANSWERED))
                step()  # what was put in or taken out is in the caches from here on
                (applied if is_applied else plain).append(sample_ms(step, repeats))
    gains = sorted(1 - after / before for before, after in zip(plain, applied, strict=True))
    drifts = [abs(1 - after / before) for before, after in itertools.pairwise(plain)]
    return Measured(
        plain_ms=statistics.median(plain),
        applied_ms=statistics.median(applied),
        gain=statistics.median(gains),
        interval=interval_of_median(gains),
        noise=statistics.median(drifts or [0.0]),
        difference=float((scores - expected).abs().max() / expected.abs().max()),
        hits=hits,
    )


def sample_ms(step: Callable[[], object], repeats: int) -> float:
    """Time a step: by the one thread that computes, so that other programs count less."""
    started_s = time.thread_time()
    for _ in range(repeats):
        step()
    return (time.thread_time() - started_s) * 1e3 / repeats


@contextlib.contextmanager
def put_in(functions: dict[str, Function]) -> Iterator[None]:
    """Put functions in the place of the model's."""
    vars(llama).update(functions)
    try:
        yield
    finally:
        vars(llama).update(PLAIN)


def interval_of_median(values: list[float]) -> tuple[float, float]:
    """Give the order statistics that hold the median with 95%, by the binomial's normal approximation."""
    reach = 0.98 * len(values) ** 0.5
    low = max(0, round(len(values) / 2 - reach) - 1)
    high = min(len(values) - 1, round(len(values) / 2 + reach))
    return values[low], values[high]


def show(phase: str, worth: dict, found: Measured, calls: Measured) -> float:
    """Print predicted against measured; gives by how many points they differ."""
    names = set(DEFINITIONS.values())
    replaced = [each for each in worth["kernels"] if each["best"] and each["kernel"] in names]
    saved_ms = sum(each["count"] * (each["reference_ms"] - each["best_ms"]) for each in replaced)
    alone = saved_ms / found.plain_ms
    predicted = alone + calls.gain
    points = abs(predicted - found.gain) * 100
    low, high = found.interval
    print(f"\n{phase}: batch of {llama.BATCH}, {llama.PROMPT} tokens of prompt, one thread")
    print(
        f"  one step, plain and applied      {found.plain_ms:7.2f} ms → {found.applied_ms:.2f} ms"
    )
    print(f"  predicted gain, kernels alone    {alone:7.1%}")
    print(f"  predicted gain, with calls' cost {predicted:7.1%}")
    print(f"  measured gain                    {found.gain:7.1%}  [{low:.1%}, {high:.1%}]")
    print(f"  apart by                         {points:7.1f} points")
    print(f"  plain steps differ by            {found.noise:7.1%} from one sample to the next")
    print(
        f"  {found.hits} calls were answered by kernels, {calls.hits} by the model's own functions; "
        f"scores differ by {found.difference:.1e}"
    )
    return points


if __name__ == "__main__":
    main()
