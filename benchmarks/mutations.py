"""How many small faults in a decomposition `decompose verify` finds.

Every problem is taken apart; then one thing at a time is changed in what was written, consistently in every file
where it stands: a kernel's output is scaled by 1%, one operation of a kernel is left out, two calls or two arguments
in a parent are swapped. A mutant none of whose kernels makes another bit is no fault: it is counted and left out.

Run: python benchmarks/mutations.py [--files examples/kernelbench] [--match GPT] [--most 20] [--json]
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import io
import itertools
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KINDS = ("scaled", "removed", "swapped")
SCALE = 1.01
HELPER = f"""
def _scaled(made):
    if isinstance(made, tuple):
        return tuple(_scaled(each) for each in made)
    return made * {SCALE} if made.is_floating_point() or made.is_complex() else made
"""


@dataclass(frozen=True)
class Mutant:
    """A change to one class, wherever it stands."""

    kind: str
    node: str
    what: str
    change: Callable[[ast.ClassDef], None]


@dataclass(frozen=True)
class Result:
    """What became of a mutant: `found`, `equal` or `missed`."""

    model: str
    mutant: Mutant
    verdict: str
    codes: tuple[str, ...] = ()


# what is changed


def mutants(folder: Path, tree: dict) -> Iterator[Mutant]:
    """Think of every change to a decomposition."""
    for node in tree["nodes"]:
        forward = _forward(_classes(folder / node["file"])["Model"])
        if node["children"]:
            yield from _swaps(node["id"], forward, set(node["children"]))
        else:
            yield Mutant("scaled", node["id"], f"output times {SCALE}", _scale)
            yield from _removals(node["id"], forward)


def _scale(cls: ast.ClassDef) -> None:
    for each in ast.walk(_forward(cls)):
        if isinstance(each, ast.Return) and each.value is not None:
            each.value = ast.Call(ast.Name("_scaled"), [each.value], [])


def _removals(node: str, forward: ast.FunctionDef) -> Iterator[Mutant]:
    for number, call in enumerate(_calls(forward)):
        if _kept(call) is not None:
            what = f"without {ast.unparse(call)[:60]}"
            yield Mutant("removed", node, what, lambda cls, at=number: _remove(cls, at))


def _remove(cls: ast.ClassDef, number: int) -> None:
    """Put what a call was given in its place."""
    call = _calls(_forward(cls))[number]
    kept = _kept(call)
    assert kept is not None
    _replace(_forward(cls), call, copy.deepcopy(kept))


def _kept(call: ast.expr) -> ast.expr | None:
    """Find what stands for the result if the operation is left out: its tensor."""
    if isinstance(call, ast.BinOp):
        return call.left if not isinstance(call.left, ast.Constant) else call.right
    assert isinstance(call, ast.Call)
    function = call.func
    is_method = isinstance(function, ast.Attribute) and not _is_module(function.value)
    first = function.value if is_method else next(iter(call.args), None)
    return first if isinstance(first, ast.Name | ast.Call | ast.BinOp) else None


def _is_module(expression: ast.expr) -> bool:
    return ast.unparse(expression).split(".")[0] in ("torch", "F", "nn")


def _swaps(node: str, forward: ast.FunctionDef, children: set[str]) -> Iterator[Mutant]:
    calls = _child_calls(forward, children)
    for first, second in itertools.pairwise(range(len(calls))):
        one, other = calls[first], calls[second]
        if one.func.attr != other.func.attr and len(one.args) == len(other.args):  # type: ignore[attr-defined]
            what = f"{ast.unparse(one.func)} and {ast.unparse(other.func)} swapped"
            yield Mutant("swapped", node, what, _swapping_children(first, second, children))
    for number, call in enumerate(calls):
        for left, right in itertools.pairwise(range(len(call.args))):
            if ast.dump(call.args[left]) != ast.dump(call.args[right]):
                what = f"arguments {left} and {right} of {ast.unparse(call.func)} swapped"
                yield Mutant("swapped", node, what, _swapping(number, left, right, children))


def _swapping_children(
    first: int, second: int, children: set[str]
) -> Callable[[ast.ClassDef], None]:
    def change(cls: ast.ClassDef) -> None:
        calls = _child_calls(_forward(cls), children)
        calls[first].func, calls[second].func = calls[second].func, calls[first].func

    return change


def _swapping(
    number: int, left: int, right: int, children: set[str]
) -> Callable[[ast.ClassDef], None]:
    def change(cls: ast.ClassDef) -> None:
        args = _child_calls(_forward(cls), children)[number].args
        args[left], args[right] = args[right], args[left]

    return change


# where it stands


def apply(folder: Path, mutant: Mutant, tree: dict) -> None:
    """Change the class in its node's file and in every parent that holds a copy."""
    own = next(node["file"] for node in tree["nodes"] if node["id"] == mutant.node)
    for node in tree["nodes"]:
        path = folder / node["file"]
        module = ast.parse(path.read_text())
        name = "Model" if node["file"] == own else _class_of(module, mutant.node)
        for each in module.body if name else ():
            if isinstance(each, ast.ClassDef) and each.name == name:
                mutant.change(each)
        if name:
            _write(path, module, mutant)


def _write(path: Path, module: ast.Module, mutant: Mutant) -> None:
    if mutant.kind == "scaled":
        first = next(i for i, each in enumerate(module.body) if isinstance(each, ast.ClassDef))
        module.body[first:first] = ast.parse(HELPER).body
    path.write_text(ast.unparse(ast.fix_missing_locations(module)) + "\n")


def _class_of(module: ast.Module, node: str) -> str | None:
    """Find the class that a file gives to a child: `self.<node> = Class()`."""
    found = re.search(rf"self\.{re.escape(node)} = (\w+)\(\)", ast.unparse(module))
    return found[1] if found else None


def _classes(path: Path) -> dict[str, ast.ClassDef]:
    body = ast.parse(path.read_text()).body
    return {each.name: each for each in body if isinstance(each, ast.ClassDef)}


def _forward(cls: ast.ClassDef) -> ast.FunctionDef:
    return next(
        each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == "forward"
    )


def _calls(forward: ast.FunctionDef) -> list[ast.expr]:
    found = [each for line in forward.body for each in ast.walk(line)]
    return [each for each in found if isinstance(each, ast.Call | ast.BinOp)]


def _child_calls(forward: ast.FunctionDef, children: set[str]) -> list[ast.Call]:
    calls = [each for each in _calls(forward) if isinstance(each, ast.Call)]
    return sorted(
        (
            each
            for each in calls
            if isinstance(each.func, ast.Attribute)
            and ast.unparse(each.func.value) == "self"
            and each.func.attr in children
        ),
        key=lambda each: (each.lineno, each.col_offset),
    )


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    class Replacing(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    Replacing().visit(tree)


# whether it is found


def judged(folder: Path, mutant: Mutant, tree: dict, seeds: int, honest: list) -> Result:
    """Apply a mutant, verify, and put everything back."""
    from flashinfer_bench.decompose.verify.findings import VerifyRequest
    from flashinfer_bench.decompose.verify.stages import verify_folder

    before = {path: path.read_text() for path in folder.glob("level_*/*.py")}
    try:
        apply(folder, mutant, tree)
        with contextlib.redirect_stderr(io.StringIO()):
            report = verify_folder(VerifyRequest(folder, seeds, exports=False))
            errors = {each.code for each in report.findings if each.severity == "error"}
            verdict = "found" if not report.passed else "missed"
            if verdict == "missed" and leaf_outputs(folder) == honest:
                verdict = "equal"
    finally:
        for path, text in before.items():
            path.write_text(text)
    return Result(folder.name, mutant, verdict, tuple(sorted(errors)))


def leaf_outputs(folder: Path) -> list:
    """Mark what every kernel call makes, in order."""
    from flashinfer_bench.decompose.model_file import load_model_file
    from flashinfer_bench.decompose.verify.bindings import bound_inputs
    from flashinfer_bench.decompose.verify.files import load_files
    from flashinfer_bench.decompose.verify.layout import DecompositionFolder, read_layout
    from flashinfer_bench.decompose.verify.originals import run_original
    from flashinfer_bench.decompose.verify.recompose import Recomposition
    from flashinfer_bench.decompose.verify.sources import Draws
    from flashinfer_bench.decompose.verify.values import mark

    layout = read_layout(folder)
    assert isinstance(layout, DecompositionFolder)
    files, _ = load_files(layout)
    made: list = []
    draws = Draws(0)
    original = run_original(load_model_file(folder / "original.py"), draws, "cpu", marking=False)
    inputs = bound_inputs(files[layout.tree.root], original).inputs
    run = Recomposition(files, draws, lambda call: made.append([mark(each) for each in call.outs]))
    with draws:
        run.run_root(files[layout.tree.root], inputs or [])
    return [*made, *run.findings]


def mutated(
    file: Path, work: Path, most: int, seeds: int, kinds: tuple[str, ...] = KINDS
) -> Iterator[Result]:
    """Take a file apart and judge its mutants; of very many a fixed choice."""
    from flashinfer_bench.decompose.model_file import load_model_file
    from flashinfer_bench.decompose.pipeline import take_apart
    from flashinfer_bench.decompose.verify.findings import VerifyRequest
    from flashinfer_bench.decompose.verify.stages import verify_folder

    folder = work / file.stem
    take_apart(load_model_file(file)).write(folder)
    shutil.rmtree(folder / "steps", ignore_errors=True)  # they would give every change away
    tree = json.loads((folder / "decomposition_tree.json").read_text())
    if not verify_folder(VerifyRequest(folder, seeds, exports=False)).passed:
        print(f"{file.stem}: left out, it does not pass as it is", file=sys.stderr)
        return
    honest = leaf_outputs(folder)
    for kind in kinds:
        all_of_kind = [each for each in mutants(folder, tree) if each.kind == kind]
        random.Random(0).shuffle(all_of_kind)
        for mutant in all_of_kind[:most]:
            yield judged(folder, mutant, tree, seeds, honest)


def table(results: list[Result]) -> str:
    """Count by kind."""
    lines = [f"{'mutation':<10}{'mutants':>9}{'equal':>8}{'faults':>8}{'found':>8}{'share':>9}"]
    for kind in (*KINDS, "all"):
        mine = [each for each in results if kind in (each.mutant.kind, "all")]
        count = Counter(each.verdict for each in mine)
        faults = count["found"] + count["missed"]
        share = f"{count['found'] / faults:.2%}" if faults else "-"
        lines.append(
            f"{kind:<10}{len(mine):>9}{count['equal']:>8}{faults:>8}{count['found']:>8}{share:>9}"
        )
    return "\n".join(lines)


def main() -> int:
    """Run over a folder of problems and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=Path, default=Path("examples/kernelbench"))
    parser.add_argument("--match", default="")
    parser.add_argument("--most", type=int, default=20, help="mutants of a kind in one model")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    start, results = time.monotonic(), []
    with tempfile.TemporaryDirectory() as work:
        for file in sorted(options.files.glob("**/*.py")):
            if options.match not in str(file) or "class Model" not in file.read_text():
                continue
            print(f"{len(results)} mutants so far; {file.stem}", file=sys.stderr, flush=True)
            for result in mutated(file, Path(work), options.most, options.seeds):
                results.append(result)
                if result.verdict == "missed":
                    said = f"{result.model}: {result.mutant.node}: {result.mutant.what}"
                    print(f"missed: {said}", file=sys.stderr, flush=True)
    if options.json:
        counts = Counter((each.mutant.kind, each.verdict) for each in results)
        print(json.dumps({f"{kind} {verdict}": n for (kind, verdict), n in counts.items()}))
    else:
        print(table(results))
        print(f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
