"""How well the kernels of a decomposition agree with what the authors of a problem set called their files.

python benchmarks/decompose_names.py [DATASET] [--all]

Level 1: the share of files that are exactly one kernel. Level 2: kernels against the words of the file's name, where
the name lists operations (`5_Conv2d_ReLU_BiasAdd`): precision (kernels that a word names) and recall (words that a
kernel has). Level 3: how the files were classified.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.decompose.capture import capture
from flashinfer_bench.decompose.grouping import check_tree, decompose_trace
from flashinfer_bench.decompose.model_file import load_model_file

if TYPE_CHECKING:
    from flashinfer_bench.decompose.ir import Node

LIKE_ADD, LIKE_MUL = {"add"}, {"mul", "div"}
WORDS: dict[str, set[str]] = {
    "gemm": {"linear", "matmul"}, "matmul": {"linear", "matmul"}, "bmm": {"linear", "bmm", "matmul"},
    "biasadd": LIKE_ADD, "add": LIKE_ADD, "residualadd": LIKE_ADD, "subtract": {"sub"}, "sum": {"sum", "add"},
    "multiply": LIKE_MUL, "scaling": LIKE_MUL, "scale": LIKE_MUL, "divide": {"div"}, "swish": {"silu"},
    "max": {"max", "max_pool1d", "max_pool2d", "max_pool3d"}, "min": {"min"}, "mean": {"mean"},
    "maxpool": {"max_pool1d", "max_pool2d", "max_pool3d"},
    "avgpool": {"avg_pool1d", "avg_pool2d", "avg_pool3d"},
    "globalavgpool": {"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "mean"},
    "gelu": {"gelu", "gelu_tanh"}, "activation": {"mish", "relu", "silu"}, "concat": {"cat"},
    "upsample": {"interpolate"},
}  # fmt: skip
"""Kernels that a word of a file's name may mean; a word not here means the kernel of that name."""


@dataclass(frozen=True)
class Agreement:
    """Kernels and words of one file, matched one to one."""

    name: str
    matched: int
    kernels: tuple[str, ...]
    words: tuple[str, ...]


def leaves(tree: Node) -> tuple[str, ...]:
    """Kernels of a tree."""
    return tuple(node.name for node in tree.walk() if node.is_leaf)


def words_of(stem: str, known: set[str]) -> tuple[str, ...] | None:
    """Words of a name that lists operations; none if it is a name of something else."""
    words = tuple(word.lower() for word in re.sub(r"^\d+_", "", stem).split("_") if word)
    is_list = len(words) > 1 and all(meanings(word) & known for word in words)
    return words if is_list else None


def meanings(word: str) -> set[str]:
    """Kernels a word may mean."""
    return WORDS.get(word, set()) | {word}


def plain(kernel: str) -> str:
    """A kernel as a file's name would write it."""
    return kernel.replace("_", "")


def agreement(name: str, kernels: tuple[str, ...], words: tuple[str, ...]) -> Agreement:
    """Match kernels with words, each once."""
    left = list(words)
    matched = 0
    for kernel in kernels:
        found = next((word for word in left if {kernel, plain(kernel)} & meanings(word)), None)
        if found is not None:
            left.remove(found)
            matched += 1
    return Agreement(name, matched, kernels, words)


def trees(folder: Path) -> dict[str, Node]:
    """Decompose every file of a level."""
    found = {}
    for path in sorted(
        folder.glob("*.py"), key=lambda each: (len(each.stem.split("_")[0]), each.stem)
    ):
        if "class Model" not in path.read_text():
            continue  # a helper that models import
        trace = capture(load_model_file(path)).trace
        tree = decompose_trace(trace)
        assert check_tree(trace, tree) == (), path
        found[path.stem] = tree
    return found


def main() -> None:
    """Print the figures of all three levels, and the files that disagree."""
    arguments = [each for each in sys.argv[1:] if each != "--all"]
    dataset = Path(arguments[0] if arguments else "examples/kernelbench")
    first, second, third = (trees(dataset / f"level{number}") for number in (1, 2, 3))
    more = {name: leaves(tree) for name, tree in first.items() if len(leaves(tree)) != 1}
    print(f"level 1: {len(first) - len(more)} of {len(first)} files are one kernel")
    for name, kernels in more.items():
        print(f"  {name}: {', '.join(kernels)}")
    known = {
        each
        for tree in (*first.values(), *second.values())
        for kernel in leaves(tree)
        for each in (kernel, plain(kernel))
    }
    listed = [
        agreement(name, leaves(tree), words)
        for name, tree in second.items()
        if (words := words_of(name, known)) is not None
    ]
    matched = sum(each.matched for each in listed)
    exact = sum(len(each.kernels) == len(each.words) == each.matched for each in listed)
    precision = matched / sum(len(each.kernels) for each in listed)
    recall = matched / sum(len(each.words) for each in listed)
    print(
        f"level 2: {len(listed)} of {len(second)} names list operations: precision {precision:.3f}, "
        f"recall {recall:.3f}, {exact} exact; {dict(Counter(tree.level for tree in second.values()))}"
    )
    for each in listed:
        if "--all" in sys.argv or not len(each.kernels) == len(each.words) == each.matched:
            print(f"  {each.name}: {', '.join(each.kernels)}")
    print(f"level 3: {dict(Counter(tree.level for tree in third.values()))}")


if __name__ == "__main__":
    main()
