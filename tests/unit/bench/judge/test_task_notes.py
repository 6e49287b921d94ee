"""How the judge finds out that a task is weak: two runs of the reference on each of three draws, once a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from flashinfer_bench.bench.config import ResolvedEvalConfig
from flashinfer_bench.bench.judge.answers import _recurring, task_notes
from flashinfer_bench.bench.judge.checking import Checker
from flashinfer_bench.bench.judge.oracle import Oracle
from flashinfer_bench.data import Definition, Workload
from flashinfer_bench.judging import Judge, Tolerance
from flashinfer_bench.judging.elementwise import nearest_factor
from flashinfer_bench.judging.judges import judge_for
from flashinfer_bench.tensors.devices import open_device

TOLERANCE = Tolerance(1e-2, 1e-2)
ROW = {"shape": ["n"], "dtype": "float32"}
SOUND = "def run(x):\n    return x + 1\n"
SMALL = "def run(x):\n    return x * 1e-6\n"
ONE_ELEMENT = """
def run(x):
    out = x * 0 + 5
    out[0] = x[0] + 10
    return out
"""


ONE_BIT = """
def run(x):
    return torch.zeros_like(x) + (x.sum() > 0)
"""
FEW_ARE_LARGE = """
def run(x):
    return x * (x > 2.2)
"""
ZERO_IN_THE_FIRST_CALL = """
def run(x):
    runs.append(1)
    return x + 1 if len(runs) > 1 else x * 0
"""


def subject(folder: Path, source: str, *, key: int = 0, **changes: Any) -> tuple[Oracle, Judge]:
    definition = Definition(
        name="subject",
        op_type="op",
        axes={"n": {"type": "var"}},
        inputs={"x": {**ROW, **changes}},
        outputs={"y": ROW},
        reference=f"import torch\n{source}",
    )
    workload = Workload(axes={"n": 64}, inputs={"x": {"type": "random"}})
    device = open_device("cpu")
    oracle = Oracle(definition, workload, files=None, device=device, key=key, cache_root=folder)
    return oracle, judge_for(definition, {})


def found(folder: Path, source: str, **changes: Any) -> dict[str, str]:
    notes = task_notes(*subject(folder, source, **changes), TOLERANCE)
    return {each.code: each.evidence for each in notes}


def test_a_sound_task_has_no_notes(tmp_path: Path) -> None:
    assert found(tmp_path, SOUND) == {}


@pytest.mark.parametrize("role", ["static", "metadata"])
def test_inputs_that_are_the_same_in_every_call_are_noted(tmp_path: Path, role: str) -> None:
    assert set(found(tmp_path, SOUND, role=role)) == {"constant_inputs"}


def test_answers_that_take_no_work_and_outputs_hardly_told_apart_are_noted(tmp_path: Path) -> None:
    notes = found(tmp_path, SMALL)

    assert notes["trivial_answer_passes"].startswith("zeros as output 'y'")
    assert notes["weakly_told_apart"] == ("output 'y' of different calls: one passes for the other")


def test_one_element_that_tells_calls_apart_is_not_enough(tmp_path: Path) -> None:
    notes = found(tmp_path, ONE_ELEMENT)

    assert notes["weakly_told_apart"] == (
        "output 'y' of different calls: 98.44% of the elements are the same"
    )


@pytest.mark.parametrize("source", [ONE_BIT, FEW_ARE_LARGE], ids=["one bit", "few are large"])
def test_the_same_task_gets_the_same_notes_whatever_the_key_of_a_job(
    tmp_path: Path, source: str
) -> None:
    notes = [found(tmp_path, source, key=key) for key in range(12)]

    assert notes == notes[:1] * 12


def test_what_one_draw_in_three_shows_is_no_note(tmp_path: Path) -> None:
    assert found(tmp_path, "runs = []\n\n" + ZERO_IN_THE_FIRST_CALL) == {}


def test_the_inputs_of_a_job_are_its_own_again_after_the_look(tmp_path: Path) -> None:
    oracle, judge = subject(tmp_path, SOUND, key=5)
    inputs, expected = oracle.inputs_of(0, 0)[0][0].clone(), oracle.expected_of_first(0)

    tuple(task_notes(oracle, judge, TOLERANCE))

    assert torch.equal(oracle.inputs_of(0, 0)[0][0], inputs)
    assert oracle.expected_of_first(0) is expected


def test_the_truth_remembers_them_whatever_the_key(tmp_path: Path) -> None:
    definition = Definition(
        name="counted",
        op_type="op",
        axes={"n": {"type": "var"}},
        inputs={"x": ROW},
        outputs={"y": ROW},
        reference="runs = []\n\ndef run(x):\n    runs.append(1)\n    return x * 1e-6\n",
    )
    workload = Workload(axes={"n": 64}, inputs={"x": {"type": "random"}})
    device = open_device("cpu")
    oracle = Oracle(definition, workload, files=None, device=device, key=0, cache_root=tmp_path)
    runs = oracle._reference.__globals__["runs"]  # type: ignore[attr-defined]

    first = Checker(oracle, ResolvedEvalConfig()).task_notes()
    count = len(runs)
    oracle.use_key(7)

    assert Checker(oracle, ResolvedEvalConfig()).task_notes() == first != ()
    assert len(runs) == count <= 6


def test_outputs_that_a_number_or_another_order_makes_from_each_other_are_noted(
    tmp_path: Path,
) -> None:
    """Which stored inputs are given to each call is of `scaled` and `permuted`: a solution may look outputs up."""
    base = "torch.arange(512.0).view(8, 64)"
    scaled = f"def run(x):\n    return {base} * x.abs().sum()\n"
    turned = f"def run(x):\n    return {base}.roll(int(x[0] > 0) + 1, 0)\n"
    sideways = f"def run(x):\n    return {base}.roll(int(x[0] > 0) + 1, 1)\n"
    nearly = f"def run(x):\n    return {base}.roll(int(x[0] > 0) + 1, 0) + 1e-3 * x\n"
    nearly_sideways = (
        f"def run(x):\n    return {base}.roll(int(x[0] > 0) + 1, 1) + 1e-3 * x[:8, None]\n"
    )

    sources = (scaled, turned, sideways, nearly, nearly_sideways, "def run(x):\n    " + NEW)
    notes = [tuple(_alike_of(tmp_path, source, is_permuted=True)) for source in sources]

    assert notes == [
        ("output 'y' of different calls: one times a number passes for the other",),
        ("output 'y' of different calls: 100% of the rows are in both",),
        ("output 'y' of different calls: 100% of the columns are in both",),
        ("output 'y' of different calls: one with its rows in another order passes for the other",),
        (
            "output 'y' of different calls: one with its columns in another order passes for the other",
        ),
        (),
    ]


NEW = "return torch.sin(torch.arange(512.0).view(8, 64) * x[0])\n"


def test_rows_that_are_only_near_to_others_speak_against_permuted_inputs_alone(
    tmp_path: Path,
) -> None:
    nearly = "def run(x):\n    return torch.arange(512.0).view(8, 64).roll(int(x[0] > 0) + 1, 0) + 1e-3 * x\n"

    assert _alike_of(tmp_path, nearly) == []


@pytest.mark.parametrize(("dtype", "width"), [(torch.float8_e4m3fn, 64), (torch.bfloat16, 20_000)])
def test_rows_of_large_and_of_narrow_outputs_are_compared_too(
    dtype: torch.dtype, width: int
) -> None:
    first = torch.randn(1000, width).to(dtype)

    assert _recurring(first, first.view(torch.uint8).roll(3, 0).view(dtype)) == 1.0
    assert _recurring(first, torch.randn(1000, width).to(dtype)) == 0.0


def test_the_nearest_factor_is_found_over_pieces() -> None:
    known = torch.randn(3_000_000)

    assert nearest_factor(known, known * 0.75) == pytest.approx(0.75)
    assert nearest_factor(known * 0, known) == 0.0


def _alike_of(folder: Path, source: str, *, is_permuted: bool = False) -> list[str]:
    definition = Definition(
        name="matrix",
        op_type="op",
        axes={"n": {"type": "var"}, "rows": {"type": "const", "value": 8}},
        inputs={"x": ROW},
        outputs={"y": {"shape": ["rows", "n"], "dtype": "float32"}},
        reference=f"import torch\n{source}",
    )
    workload = Workload(axes={"n": 64}, inputs={"x": {"type": "random"}})
    device = open_device("cpu")
    oracle = Oracle(definition, workload, files=None, device=device, key=1, cache_root=folder)
    oracle.inputs = tuple(replace(plan, is_permuted=is_permuted) for plan in oracle.inputs)
    notes = task_notes(oracle, judge_for(definition, {}), TOLERANCE)
    return [each.evidence for each in notes if each.code == "weakly_told_apart"]
