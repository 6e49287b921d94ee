"""How often `bench-model` tells the same build from itself, and finds a wait put into one side.

    python benchmarks/deployed.py --pairs 20 --wait 3%
    python benchmarks/deployed.py --pairs 20 --clock cpu --jobs 8
    python benchmarks/deployed.py --pairs 4 --device cuda:0 --mode graphs --rounds 1

A small decoder on one CPU thread, or a larger one on a card. Both sides have the same dataset, or the candidate's has a
solution that computes a share of a step longer (on a card, that keeps it busy so long), measured here first. The same
build should be SAME, and a wait of 3% should be found (SLOWER). With several jobs, each has a core of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

MODEL = """\
import os

import torch
from torch import nn

import flashinfer_bench as fib

WIDTH, LAYERS = int(os.environ["FIB_WIDTH"]), 8


@fib.apply("double_relu")
def double_relu(x):
    return torch.relu(x) * 2


class Model(nn.Module):
    vocab_size = 512

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(512, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 512)

    def begin(self, rows, room):
        weight = self.head.weight
        self.seen = torch.zeros(rows, WIDTH, dtype=weight.dtype, device=weight.device)

    def _step(self):
        x = self.seen
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(double_relu(x))

    def prefill(self, tokens):
        self.seen.copy_(self.embedding(tokens).mean(1))
        return self._step()

    def decode(self, tokens, position):
        self.seen.mul_(0.5).add_(self.embedding(tokens[:, 0]))
        return self._step()
"""
PLAIN = "import torch\n\n\ndef run(x):\n    return torch.relu(x) * 2\n"
WAITING = """\
import time

import torch


def run(x):
    until = time.thread_time_ns() + {nanoseconds}
    y = torch.relu(x) * 2
    while time.thread_time_ns() < until:
        pass
    return y
"""
WAITING_ON_A_CARD = """\
import torch


def run(x):
    torch.cuda._sleep({cycles})
    return torch.relu(x) * 2
"""
ROWS = 16
WIDTHS = {"cpu": 512, "cuda": 8192}
"""On a card the wait is a kernel more, and its start adds about a microsecond: steps are long beside that."""


def main() -> None:
    """Compare as often as asked for, and print how the verdicts came out."""
    options = arguments()
    share = float(options.wait.removesuffix("%")) / 100
    os.environ["FIB_WIDTH"] = str(WIDTHS[options.device.partition(":")[0]])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "model.py").write_text(MODEL)
        same = dataset(place / "same", PLAIN, options.device)
        step_ns = compared(place, same, same, options, seed=0)["old_step_ms"]["value"] * 1e6
        waiting = source_that_waits(share * step_ns, options.device)
        print(
            f"{machine(options.device)}, {options.mode}: {options.rounds} rounds of {options.blocks} "
            f"samples of {options.sample_time}; one step {step_ns / 1e3:.0f} µs, "
            f"the candidate waits {share * step_ns / 1e3:.1f} µs",
            flush=True,
        )
        slower = dataset(place / "slower", waiting, options.device)
        candidates = {"same": ("same build", same), "wait": (f"{options.wait} wait", slower)}
        for kind in options.kinds:
            count_verdicts(*candidates[kind], place, same, options)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20, help="comparisons of each kind")
    parser.add_argument("--wait", default="3%", help="share of a step that is waited")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--sample-time", default="5ms")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:0")
    parser.add_argument("--mode", default="eager", choices=["eager", "compiled", "graphs"])
    kinds = ("same", "wait")
    parser.add_argument("--kinds", nargs="+", default=kinds, choices=kinds, help="what to compare")
    parser.add_argument("--jobs", type=int, default=1, help="comparisons at a time")
    options = parser.parse_args()
    if options.jobs > 1 and options.device != "cpu":
        parser.error("comparisons on one card disturb each other: --jobs is for a CPU")
    return options


def machine(device: str) -> str:
    """Name what is measured on."""
    if device == "cpu":
        return "one CPU thread"
    import torch

    return torch.cuda.get_device_name(device)


def count_verdicts(
    name: str, candidate: Path, place: Path, baseline: Path, options: argparse.Namespace
) -> None:
    """Compare two sides `--pairs` times, each with a seed of its own; print each verdict, and how many."""
    began = time.monotonic()

    def compare(seed: int) -> dict[str, Any]:
        decode = compared(place, candidate, baseline, options, seed=seed)
        print(f"  {name} {seed + 1}: {decode['verdict']}, {decode['ratio']:.3f}", flush=True)
        return decode

    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(compare, range(options.pairs)))
    counts = Counter(each["verdict"] for each in found)
    ratios = [each["ratio"] for each in found]
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    took = time.monotonic() - began
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    print(f"{name}: {said} of {options.pairs}; ratios {spread}; {took:.0f} s", flush=True)


def dataset(folder: Path, source: str, device: str) -> Path:
    """Write a dataset whose one solution wins on the rows that the model has."""
    from flashinfer_bench.data import Definition, save_json_file
    from flashinfer_bench.data.layout import Layout
    from tests.unit.apply.datasets import HERE, solution, trace

    is_cpu, width = device == "cpu", int(os.environ["FIB_WIDTH"])
    shape = {"shape": ["rows", "width"], "dtype": "float32" if is_cpu else "bfloat16"}
    definition = Definition.model_validate(
        {
            "name": "double_relu",
            "op_type": "relu",
            "axes": {"rows": {"type": "var"}, "width": {"type": "const", "value": width}},
            "inputs": {"x": shape},
            "outputs": {"y": shape},
            "reference": PLAIN.replace("* 2", "* 2.0"),
        }
    )
    layout = Layout(folder)
    targets = ["cpu"] if is_cpu else ["cuda"]
    made = solution("relu", source, of="double_relu", target_hardware=targets)
    save_json_file(definition, layout.definition_file(definition))
    save_json_file(made, layout.solution_file(made, definition.op_type))
    traces = layout.trace_file("tester", definition)
    traces.parent.mkdir(parents=True)
    hardware = HERE if is_cpu else machine(device)
    line = trace("relu", {"rows": ROWS}, of="double_relu", hardware=hardware).to_json()
    traces.write_text(f"{line}\n")
    return folder


def source_that_waits(nanoseconds: float, device: str) -> str:
    """Write the solution that takes so much longer than the plain one, on this machine now."""
    import torch

    if device == "cpu":
        torch.set_num_threads(1)
        x = torch.randn(ROWS, WIDTHS["cpu"])
        began = time.thread_time_ns()
        for _ in range(2000):
            torch.relu(x) * 2
        plain = (time.thread_time_ns() - began) / 2000
        return WAITING.format(nanoseconds=round(plain + nanoseconds))
    spins = []
    for cycles in (10**6, 10**7, 10**7):  # the first one warms up
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.cuda._sleep(cycles)
        end.record()
        end.synchronize()
        spins.append(start.elapsed_time(end) * 1e6 / cycles)
    return WAITING_ON_A_CARD.format(cycles=round(nanoseconds / spins[-1]))


def compared(
    place: Path, candidate: Path, baseline: Path, options: argparse.Namespace, *, seed: int
) -> dict[str, Any]:
    """Run the command; gives what it says of decode."""
    words = ["bench-model", place / "model.py", "--with", candidate, "--against", baseline]
    words += ["--modes", options.mode, "--device", options.device, "--threads", 1, "--rows", ROWS]
    words += ["--prompt", 8, "--steps", 8, "--rounds", options.rounds, "--blocks", options.blocks]
    words += ["--sample-time", options.sample_time, "--clock", options.clock]
    words += ["--seed", seed, "--json", "--log-level", "warning"]
    command = [sys.executable, "-m", "flashinfer_bench", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        sys.exit(f"error: bench-model ended with exit code {done.returncode}")
    (found,) = json.loads(done.stdout)["model"]["modes"]
    if found["status"] != "passed":
        sys.exit(f"error: {found['why']}")
    return dict(next(each for each in found["phases"] if each["phase"] == "decode"))


if __name__ == "__main__":
    main()
