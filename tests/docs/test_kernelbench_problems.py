"""Our own problems in KernelBench's format: every one runs, repeats under a seed, and has a name of its own."""

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.marks import mostly_full

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2] / "examples" / "kernelbench"
LEVELS = ("level1", "level2", "level3")
PROBLEMS = sorted(
    path
    for level in LEVELS
    for path in (ROOT / level).glob("*.py")
    if "class Model(" in path.read_text()
)


@contextmanager
def beside(path: Path) -> Iterator[None]:
    """Let a file import the modules that lie in its folder, as running it would."""
    sys.path.insert(0, str(path.parent))
    try:
        yield
    finally:
        sys.path.remove(str(path.parent))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"problem_{path.parent.name}_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with beside(path):
        spec.loader.exec_module(module)
    return module


def run(module: ModuleType, seed: int) -> list[Any]:
    """Build, draw inputs and run under one seed; every tensor that came out, in order."""
    torch.manual_seed(seed)
    model = module.Model(*module.get_init_inputs())
    inputs = module.get_inputs()
    with torch.no_grad():
        return list(tensors_in(model(*inputs)))


def tensors_in(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
        return
    for part in value.values() if isinstance(value, dict) else value:
        yield from tensors_in(part)


@pytest.mark.parametrize(
    "path",
    mostly_full(PROBLEMS, *PROBLEMS[::3]),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_a_problem_gives_finite_outputs_that_its_seed_decides(path: Path) -> None:
    module = load(path)

    first, again, other = run(module, 1), run(module, 1), run(module, 2)

    assert first
    assert all(torch.isfinite(tensor).all() for tensor in first if tensor.is_floating_point())
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("level", LEVELS)
def test_numbers_and_names_occur_once_in_a_level(level: str) -> None:
    stems = [path.stem for path in PROBLEMS if path.parent.name == level]
    numbers = Counter(match[1] for stem in stems if (match := re.match(r"(\d+)_", stem)))
    names = Counter(re.sub(r"^\d+_", "", stem).lower() for stem in stems)

    assert [number for number, times in numbers.items() if times > 1] == []
    assert [name for name, times in names.items() if times > 1] == []


def test_the_set_is_as_large_as_promised() -> None:
    counts = Counter(path.parent.name for path in PROBLEMS)

    assert counts["level1"] >= 30
    assert counts["level2"] >= 20
    assert counts["level3"] >= 20
