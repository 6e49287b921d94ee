"""Step 1: write down what is computed. RMSNorm over rows of 4096 in float16, epsilon an argument."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from flashinfer_bench import AxisConst, AxisVar, Definition, TensorSpec, TraceSet
from flashinfer_bench.data import DType, save_json_file
from flashinfer_bench.errors import BenchError

DATASET = Path(__file__).parent / "dataset"

RMSNORM = Definition(
    name="rmsnorm_d4096",
    op_type="rmsnorm",
    description="Root mean square layer normalisation with a gain, epsilon given by the caller.",
    axes={
        "batch": AxisVar(description="rows: tokens in the step"),
        "hidden": AxisConst(value=4096, description="elements of a row"),
    },
    constraints=["hidden % 128 == 0"],
    inputs={
        "x": TensorSpec(shape=["batch", "hidden"], dtype=DType.FLOAT16, description="rows"),
        "weight": TensorSpec(
            shape=["hidden"], dtype=DType.FLOAT16, role="static", description="gain of each column"
        ),
        "eps": TensorSpec(
            shape=None, dtype=DType.FLOAT32, description="keeps a row of zeros finite"
        ),
    },
    outputs={
        "y": TensorSpec(
            shape=["batch", "hidden"],
            dtype=DType.FLOAT16,
            description="x / sqrt(mean(x^2) + eps) * weight, row by row",
        )
    },
    reference="""\
import torch


def run(x, weight, eps):
    wide = x.to(torch.float32)
    mean_square = wide.pow(2).mean(dim=-1, keepdim=True)
    normalised = wide * torch.rsqrt(mean_square + eps)
    return (normalised * weight.to(torch.float32)).to(x.dtype)
""",
)


def ensure_definition(traces: TraceSet) -> bool:
    """Add the definition unless the dataset has it; tell whether it was added."""
    if traces.definitions.get(RMSNORM.name) == RMSNORM:
        return False
    save_json_file(RMSNORM, traces.definitions_path / RMSNORM.op_type / f"{RMSNORM.name}.json")
    traces.definitions[RMSNORM.name] = RMSNORM
    return True


def step_parser(description: str | None) -> argparse.ArgumentParser:
    """What all four steps take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--dataset", type=Path, default=DATASET, help="folder to build  [default: dataset, here]"
    )
    return parser


def run_step(main: Callable[[], None]) -> None:
    """Run a step; what is wrong with its arguments is one line."""
    try:
        main()
    except (BenchError, OSError) as error:
        sys.exit(f"error: {error}")


def main() -> None:
    arguments = step_parser(__doc__).parse_args()
    is_new = ensure_definition(TraceSet.create(arguments.dataset))
    print(f"definition {RMSNORM.name}: {'written' if is_new else 'was there'}")


if __name__ == "__main__":
    run_step(main)
