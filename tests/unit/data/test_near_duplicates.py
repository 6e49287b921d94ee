"""Solutions that are nearly the same are named; those that only look alike are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashinfer_bench.data import BuildSpec, Solution, SourceFile, TraceSet
from flashinfer_bench.data.near_duplicates import near_duplicates, near_duplicates_by_name
from flashinfer_bench.data.solution import SupportedLanguages

DATASET = Path(__file__).parents[3] / "examples" / "dataset"
KERNEL = """
import torch


def run(hidden, weight):
    '''Scale each row.'''
    wide = hidden.to(torch.float32)
    mean = wide.pow(2).mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(mean + 1e-5)
    scaled = wide * scale * weight.to(torch.float32)
    halves = torch.chunk(scaled, 2, dim=-1)
    joined = torch.cat(halves, dim=-1)
    return joined.to(hidden.dtype)
"""


def solution(name: str, content: str, path: str = "main.py") -> Solution:
    spec = BuildSpec(
        language=SupportedLanguages.PYTHON,
        target_hardware=["cpu"],
        entry_point=f"{path}::run",
    )
    sources = [SourceFile(path=path, content=content)]
    return Solution(name=name, definition="rms", author="me", spec=spec, sources=sources)


@pytest.mark.parametrize(
    ("old", "new"),
    [("hidden", "x"), ("wide", "tokens"), ("    return", "    # the end\n    return")],
)
def test_other_names_and_comments_are_no_difference(old: str, new: str) -> None:
    renamed = solution("two", KERNEL.replace(old, new))

    (found,) = near_duplicates([solution("one", KERNEL), renamed])

    assert (found.one, found.other, found.similarity) == ("one", "two", 1.0)


def test_another_constant_is_a_small_difference() -> None:
    (found,) = near_duplicates(
        [solution("one", KERNEL), solution("two", KERNEL.replace("1e-5", "1e-6"))]
    )

    assert 0.85 <= found.similarity < 1.0


def test_another_algorithm_is_no_near_duplicate() -> None:
    other = KERNEL.replace("wide.pow(2).mean(dim=-1, keepdim=True)", "torch.var(wide, -1)").replace(
        "torch.chunk(scaled, 2, dim=-1)", "(scaled.float().contiguous(), scaled[..., :0])"
    )

    assert list(near_duplicates([solution("one", KERNEL), solution("two", other)])) == []


def test_the_same_content_and_short_sources_are_left_out() -> None:
    short = "def run(x):\n    return x\n"

    assert list(near_duplicates([solution("one", KERNEL), solution("two", KERNEL)])) == []
    assert list(near_duplicates([solution("a", short), solution("b", short + "\n")])) == []


def test_no_two_bundled_solutions_are_nearly_the_same() -> None:
    traces = TraceSet.from_path(DATASET)

    found = {name: list(near_duplicates(each)) for name, each in traces.solutions.items()}

    assert {name: each for name, each in found.items() if each} == {}


def test_each_solution_has_its_own_by_name_the_most_alike_first() -> None:
    one, other = solution("one", KERNEL), solution("other", KERNEL.replace("1e-5", "1e-6"))
    renamed = solution("renamed", KERNEL.replace("hidden", "x"))
    elsewhere = solution("elsewhere", KERNEL).model_copy(update={"definition": "layer_norm"})

    found = near_duplicates_by_name([other, elsewhere, renamed, one])

    assert list(found["one"]) == ["renamed", "other"]
    assert found["other"]["one"] == found["one"]["other"] < found["one"]["renamed"] == 1.0
    assert "elsewhere" not in found
