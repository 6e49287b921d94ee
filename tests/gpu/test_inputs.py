"""Inputs drawn on a card: legal, other in every call, and the same bits in every process."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap

import pytest
import torch

from flashinfer_bench.tensors import input_generation
from flashinfer_bench.tensors.dtypes import torch_dtype
from flashinfer_bench.tensors.legality import illegality
from flashinfer_bench.tensors.outputs import fingerprint
from tests.unit.tensors.test_input_generation import BIG, VARYING, Case

pytestmark = pytest.mark.gpu


def calls_on_the_card(case: Case, count: int) -> list[torch.Tensor]:
    """What a trial holds, and the content of some of its calls."""
    distribution, shape, dtype = case
    wanted = (distribution, shape, torch_dtype(dtype))
    generator = torch.Generator(device="cuda").manual_seed(3)
    made = [input_generation.draw(*wanted, generator)]
    pool = input_generation.draw_pool(*wanted, torch.Generator(device="cuda").manual_seed(3))
    for seed in range(count):
        out = torch.empty(shape, dtype=pool.dtype, device="cuda")
        input_generation.fill(distribution, pool, out, random.Random(seed))
        made.append(out)
    return made


@pytest.mark.parametrize("case", [*VARYING, *BIG], ids=str)
def test_what_is_drawn_on_the_card_is_legal(case: Case) -> None:
    made = calls_on_the_card(case, 3)

    assert {each.device.type for each in made} == {"cuda"}
    assert [illegality(case[0], each) for each in made] == [None] * 4


@pytest.mark.parametrize("case", VARYING, ids=str)
def test_no_call_on_the_card_sees_the_content_of_another(case: Case) -> None:
    _, *calls = calls_on_the_card(case, 50)

    assert len({fingerprint([each]) for each in calls}) >= 49  # chance may repeat one


def prints() -> list[str]:
    """Fingerprints of what a trial and two calls hold."""
    return [fingerprint(calls_on_the_card(case, 2)).hex() for case in BIG]


def test_another_process_draws_the_same_bits_on_the_card() -> None:
    script = "from tests.gpu.test_inputs import prints\nprint(*prints())\n"

    there = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )

    assert there.stdout.split() == prints()
