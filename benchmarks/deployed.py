"""How often `bench-model` tells the same build from itself, and finds a wait put into one side.

    python benchmarks/deployed.py --pairs 20 --wait 3%

A small decoder on one CPU thread. Both sides have the same dataset, or the candidate's has a solution that computes a
share of a step longer, measured here first. The same build should be SAME, and a wait of 3% should be found (SLOWER).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

MODEL = """\
import torch
from torch import nn

import flashinfer_bench as fib


@fib.apply("double_relu")
def double_relu(x):
    return torch.relu(x) * 2


class Model(nn.Module):
    vocab_size = 512

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(512, 512)
        self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(8))
        self.head = nn.Linear(512, 512)

    def begin(self, rows, room):
        self.seen = torch.zeros(rows, 512, dtype=self.head.weight.dtype)

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
ROWS = 16


def main() -> None:
    """Compare as often as asked for, and print how the verdicts came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20, help="comparisons of each kind")
    parser.add_argument("--wait", default="3%", help="share of a step that is waited")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--sample-time", default="5ms")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    options = parser.parse_args()
    share = float(options.wait.removesuffix("%")) / 100
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "model.py").write_text(MODEL)
        same = dataset(place / "same", PLAIN)
        step_ns, plain_ns = probe(place, same, options)
        waiting = WAITING.format(nanoseconds=round(plain_ns + share * step_ns))
        print(
            f"one step {step_ns / 1e3:.0f} µs; the candidate waits {share * step_ns / 1e3:.1f} µs"
        )
        slower = dataset(place / "slower", waiting)
        for name, candidate in (("same build", same), (f"{options.wait} wait", slower)):
            began = time.monotonic()
            found: Counter[str] = Counter()
            ratios = []
            for at in range(options.pairs):
                decode = compared(place, candidate, same, options, seed=at)
                found[decode["verdict"]] += 1
                ratios.append(decode["ratio"])
                print(f"  {name} {at + 1}: {decode['verdict']}, {decode['ratio']:.3f}", flush=True)
            counts = ", ".join(f"{count} {verdict}" for verdict, count in found.most_common())
            took = time.monotonic() - began
            spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
            print(f"{name}: {counts} of {options.pairs}; ratios {spread}; {took:.0f} s", flush=True)


def dataset(folder: Path, source: str) -> Path:
    """Write a dataset whose one solution wins on the rows that the model has."""
    from flashinfer_bench.data import Definition, save_json_file
    from flashinfer_bench.data.layout import Layout
    from tests.unit.apply.datasets import solution, trace

    shape = {"shape": ["rows", "width"], "dtype": "float32"}
    definition = Definition.model_validate(
        {
            "name": "double_relu",
            "op_type": "relu",
            "axes": {"rows": {"type": "var"}, "width": {"type": "const", "value": 512}},
            "inputs": {"x": shape},
            "outputs": {"y": shape},
            "reference": PLAIN.replace("* 2", "* 2.0"),
        }
    )
    layout = Layout(folder)
    made = solution("relu", source, of="double_relu")
    save_json_file(definition, layout.definition_file(definition))
    save_json_file(made, layout.solution_file(made, definition.op_type))
    traces = layout.trace_file("tester", definition)
    traces.parent.mkdir(parents=True)
    line = trace("relu", {"rows": ROWS}, of="double_relu").to_json()
    traces.write_text(f"{line}\n")
    return folder


def probe(place: Path, same: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Time a step, and the function that is to wait, on this machine now."""
    import torch

    torch.set_num_threads(1)
    step_ns = compared(place, same, same, options, seed=0)["old_step_ms"]["value"] * 1e6
    x = torch.randn(ROWS, 512)
    began = time.thread_time_ns()
    for _ in range(2000):
        torch.relu(x) * 2
    return step_ns, (time.thread_time_ns() - began) / 2000


def compared(
    place: Path, candidate: Path, baseline: Path, options: argparse.Namespace, *, seed: int
) -> dict[str, Any]:
    """Run the command; gives what it says of decode."""
    words = ["bench-model", place / "model.py", "--with", candidate, "--against", baseline]
    words += ["--modes", "eager", "--device", "cpu", "--threads", 1, "--rows", ROWS]
    words += ["--prompt", 8, "--steps", 8, "--rounds", options.rounds, "--blocks", options.blocks]
    words += ["--sample-time", options.sample_time, "--clock", options.clock]
    words += ["--seed", seed, "--json", "--log-level", "warning"]
    command = [sys.executable, "-m", "flashinfer_bench", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    (eager,) = json.loads(done.stdout)["model"]["modes"]
    assert eager["status"] == "passed", eager["why"]
    return dict(next(each for each in eager["phases"] if each["phase"] == "decode"))


if __name__ == "__main__":
    main()
