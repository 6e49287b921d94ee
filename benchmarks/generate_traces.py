"""Write a dataset of 100,000 traces: 110 definitions, 20 authors, about 79 MB of traces.

python benchmarks/generate_traces.py [FOLDER]
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

DEFINITIONS, AUTHORS, TRACES = 110, 20, 100_000
REFERENCE = "import torch\n\ndef run(x, weight):\n    return x * weight\n"


def generate(root: Path, traces: int = TRACES) -> Path:
    """Write the dataset; the same every time."""
    draw = random.Random(0)
    files = DEFINITIONS * AUTHORS
    for index in range(files):
        definition, author = f"op_{index // AUTHORS:03}_h4096", index % AUTHORS
        op_type = f"op{index // AUTHORS % 8}"
        count = traces // files + (index < traces % files)
        write_author(root, op_type, definition, author_name(author), count=count, draw=draw)
        if author == 0:
            write_definition(root, op_type, definition)
    return root


def author_name(number: int) -> str:
    """Name an author; the first one is the baseline."""
    return "baseline" if number == 0 else f"author{number:02}"


def write_definition(root: Path, op_type: str, name: str) -> None:
    """Write a definition and its workloads."""
    axes = {"rows": {"type": "var"}, "hidden": {"type": "const", "value": 4096}}
    definition = {
        "name": name,
        "op_type": op_type,
        "axes": axes,
        "inputs": {
            "x": {"shape": ["rows", "hidden"], "dtype": "bfloat16"},
            "weight": {"shape": ["hidden"], "dtype": "bfloat16"},
        },
        "outputs": {"y": {"shape": ["rows", "hidden"], "dtype": "bfloat16"}},
        "reference": REFERENCE,
    }
    write(root / "definitions" / op_type / f"{name}.json", [definition])
    lines = [
        {
            "definition": name,
            "workload": workload(name, index),
            "solution": None,
            "evaluation": None,
        }
        for index in range(50)
    ]
    write(root / "workloads" / op_type / f"{name}.jsonl", lines)


def write_author(
    root: Path, op_type: str, definition: str, author: str, *, count: int, draw: random.Random
) -> None:
    """Write an author's solution of a definition and its traces."""
    name = f"{author}_{definition}"
    solution = {
        "name": name,
        "definition": definition,
        "author": author,
        "spec": {"language": "triton", "target_hardware": ["cuda"], "entry_point": "main.py::run"},
        "sources": [{"path": "main.py", "content": REFERENCE}],
    }
    write(root / "solutions" / author / op_type / definition / f"{name}.json", [solution])
    lines = [trace(definition, name, index, draw) for index in range(count)]
    write(root / "traces" / author / op_type / f"{definition}.jsonl", lines)


def workload(definition: str, index: int) -> dict[str, Any]:
    """Give a workload."""
    return {
        "axes": {"rows": 1 + index},
        "inputs": {"x": {"type": "random"}},
        "uuid": f"{definition[3:6]}00000-0000-4000-8000-{index:012}",
    }


def trace(definition: str, solution: str, index: int, draw: random.Random) -> dict[str, Any]:
    """Give a trace as the engine writes it: mostly passed, with provenance."""
    latency_ms, reference_ms = draw.uniform(0.01, 0.02), draw.uniform(0.02, 0.03)
    is_passed = draw.random() < 0.98
    evaluation = {
        "status": "PASSED" if is_passed else "RUNTIME_ERROR",
        "environment": {
            "hardware": "NVIDIA H200",
            "libs": {"torch": "2.8.0"},
        },
        "timestamp": "2026-01-09T10:30:00+00:00",
        "log": "",
        "correctness": None,
        "performance": None,
        "provenance": {
            "trace_id": f"{draw.getrandbits(64):016x}",
            "solution_hash": "v1-" + f"{draw.getrandbits(256):064x}",
            "config_hash": f"{draw.getrandbits(64):016x}",
            "seed": f"{draw.getrandbits(64):016x}",
            "seed_given": False,
            "run": {"id": "0123456789abcdef"},
            "sandbox": "process",
            "interpreted": False,
        },
    }
    if is_passed:
        evaluation["correctness"] = {
            "max_relative_error": draw.uniform(0, 0.009),
            "max_absolute_error": draw.uniform(0, 0.009),
            "extra": None,
        }
        evaluation["performance"] = {
            "latency_ms": latency_ms,
            "reference_latency_ms": reference_ms,
            "speedup_factor": reference_ms / latency_ms,
        }
    return {
        "definition": definition,
        "workload": workload(definition, index),
        "solution": solution,
        "evaluation": evaluation,
    }


def write(path: Path, objects: list[dict[str, Any]]) -> None:
    """Write one object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(each, separators=(",", ":")) for each in objects)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "folder", nargs="?", type=Path, help="default: a new one for temporary files"
    )
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp(prefix="traces-"))
    print(generate(folder))
