"""Step 2: a solution for each language, made of an ordinary kernel file."""

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path

from create_definition import RMSNORM, ensure_definition, run_step, step_parser

from flashinfer_bench import BuildSpec, Solution, SourceFile, TraceSet
from flashinfer_bench.data import unpack

KERNELS = Path(__file__).parent / "kernels"
AUTHOR = "example"


@dataclass(frozen=True)
class Kernel:
    """A solution's name, its file in `kernels/`, the function to call in it, and where it can run."""

    name: str
    file: str
    function: str
    target_hardware: tuple[str, ...]
    dependencies: tuple[str, ...] = ()


# Without a GPU, Triton is interpreted and TileLang compiles to C: right or wrong shows, speed does not.
BY_LANGUAGE = {
    "triton": Kernel(
        "rmsnorm_triton_warp_v1", "triton_rmsnorm.py", "run", ("cuda", "cpu"), ("torch", "triton")
    ),
    "cuda": Kernel("rmsnorm_cuda_v1", "cuda_rmsnorm/kernel.cu", "rmsnorm", ("cuda",)),
    "tilelang": Kernel(
        "rmsnorm_tilelang_v1", "tilelang_rmsnorm.py", "run", ("cuda", "cpu"), ("torch", "tilelang")
    ),
}


def solution_in(language: str) -> Solution:
    """Describe the kernel of one language."""
    kernel = BY_LANGUAGE[language]
    path = KERNELS / kernel.file
    return Solution(
        name=kernel.name,
        definition=RMSNORM.name,
        author=AUTHOR,
        spec=BuildSpec(
            language=language,
            entry_point=f"{path.name}::{kernel.function}",
            target_hardware=list(kernel.target_hardware),
            dependencies=list(kernel.dependencies),
            destination_passing_style=True,
        ),
        sources=[SourceFile(path=path.name, content=path.read_text())],
    )


def ensure_solutions(traces: TraceSet, languages: list[str]) -> list[str]:
    """Add what the dataset lacks, and what has changed since; give the names of those."""
    written = []
    for solution in map(solution_in, languages):
        if traces.get_solution(solution.name) == solution:
            continue
        op_type, definition = RMSNORM.op_type, RMSNORM.name
        folder = traces.solutions_path / AUTHOR / op_type / definition / solution.name
        shutil.rmtree(folder, ignore_errors=True)
        unpack(solution, folder)
        others = [
            each for each in traces.solutions.get(definition, []) if each.name != solution.name
        ]
        traces.solutions[definition] = [*others, solution]
        written.append(solution.name)
    return written


def language_list(text: str) -> list[str]:
    """Read `triton,cuda`."""
    languages = [name.strip() for name in text.split(",")]
    for name in languages:
        if name not in BY_LANGUAGE:
            known = ", ".join(BY_LANGUAGE)
            raise argparse.ArgumentTypeError(f"no kernel in {name!r}; there are {known}")
    return languages


def main() -> None:
    parser = step_parser(__doc__)
    parser.add_argument(
        "--languages",
        type=language_list,
        default=list(BY_LANGUAGE),
        help="some of triton,cuda,tilelang  [default: all]",
    )
    arguments = parser.parse_args()
    traces = TraceSet.create(arguments.dataset)
    ensure_definition(traces)
    written = ensure_solutions(traces, arguments.languages)
    for language in arguments.languages:
        name = BY_LANGUAGE[language].name
        print(f"solution {name}: {'written' if name in written else 'was there'}")


if __name__ == "__main__":
    run_step(main)
