"""What of inputs is settled late: by the published mixer, the same everywhere, and as legal as before."""

from __future__ import annotations

import pytest
import torch

from flashinfer_bench.data.distributions import (
    Boolean,
    Distribution,
    Integers,
    Normal,
    PageTable,
    Permutation,
    Probabilities,
    Uniform,
)
from flashinfer_bench.tensors import late_content
from flashinfer_bench.tensors.input_generation import draw
from flashinfer_bench.tensors.planned import InputPlan, TensorPlan

ALL = (1 << 64) - 1
SEED = 0x1234_5678_9ABC_DEF1


def planned(
    *shape: int, dtype: str = "float32", distribution: object = None, role: str = "dynamic"
) -> InputPlan:
    tensor = TensorPlan("x", shape, dtype)
    return InputPlan(tensor, "window", role=role, distribution=distribution)  # type: ignore[arg-type]


def splitmix64(state: int) -> int:
    """The finalizer as it was published, on Python's integers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & ALL
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & ALL
    return state ^ (state >> 31)


def bits_of(seed: int, place: int, group: int) -> int:
    return splitmix64((seed + 0x9E3779B97F4A7C15 * (1 + (place << 32) + group)) & ALL)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_only_signs_change_and_about_half_of_them(dtype: str) -> None:
    plan = planned(64, 64, dtype=dtype)
    drawn = torch.randn(64, 64).add_(0.5).to(getattr(torch, dtype))
    flipped = drawn.clone()
    late_content.settle([plan], [[flipped]], SEED)
    before, after = drawn.double(), flipped.double()
    assert torch.equal(before.abs(), after.abs())
    assert 0.45 < (before.signbit() != after.signbit()).double().mean() < 0.55


@pytest.mark.parametrize(
    ("dtype", "distribution"),
    [
        ("int8", Integers(low=-128, high=128)),
        ("int16", Integers(low=-1024, high=1024)),
        ("int32", Integers(low=3, high=1000)),
        ("int32", PageTable(pages=77, unique=False)),
        ("int64", Integers(low=-(1 << 62), high=(1 << 62) + 9)),
    ],
    ids=str,
)
def test_about_half_of_whole_numbers_are_mirrored(dtype: str, distribution: Distribution) -> None:
    total = {3: 1002, -128: -1, -1024: -1, -(1 << 62): 8}.get(getattr(distribution, "low", 0), 76)
    drawn = draw(distribution, (64, 64), getattr(torch, dtype), torch.Generator().manual_seed(1))
    settled = drawn.clone()
    plan = planned(64, 64, dtype=dtype, distribution=distribution)
    late_content.settle([plan], [[settled]], SEED)
    before, after = drawn.flatten().tolist(), settled.flatten().tolist()
    assert all(new in (old, total - old) for old, new in zip(before, after, strict=True))
    changed = sum(old != new for old, new in zip(before, after, strict=True))
    assert 0.45 < changed / len(before) < 0.55


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_floats_spread_evenly_stay_between_their_powers_of_two(dtype: str) -> None:
    distribution = Uniform(low=0.0, high=2.0)
    drawn = draw(distribution, (4096,), getattr(torch, dtype), torch.Generator().manual_seed(1))
    settled = drawn.clone()
    plan = planned(4096, dtype=dtype, distribution=distribution)
    late_content.settle([plan], [[settled]], SEED)
    before, after = drawn.double(), settled.double()
    assert torch.equal(before.frexp().exponent, after.frexp().exponent)
    assert (before != after).double().mean() > 0.9
    assert 0 <= after.min() <= after.max() < 2


def test_fair_coins_are_turned_over() -> None:
    coins = torch.rand(4096) < 0.5
    settled = coins.clone()
    plan = planned(4096, dtype="bool", distribution=Boolean())
    late_content.settle([plan], [[settled]], SEED)
    assert set(settled.view(torch.uint8).tolist()) == {0, 1}
    assert 0.45 < (settled != coins).double().mean() < 0.55


def test_the_bits_are_those_of_splitmix64() -> None:
    sets = [[torch.ones(4, 2), 3, torch.ones(2, 3)] for _ in range(2)]
    plans = [planned(4, 2), planned(1, dtype="int64"), planned(2, 3)]
    late_content.settle(plans, sets, SEED)
    tensors = [each for arguments in sets for each in (arguments[0], arguments[2])]
    for place, tensor in enumerate(tensors):
        words = tensor.view(-1).view(torch.int64).tolist()
        for group, word in enumerate(words):
            mixed = splitmix64(bits_of(SEED, place, group)) & 0x8000_0000_8000_0000
            assert word & ALL == 0x3F80_0000_3F80_0000 ^ mixed


def test_of_a_large_tensor_one_word_of_each_group_may_change() -> None:
    plan, tensor = planned(1 << 20), torch.ones(1 << 20)
    late_content.settle([plan], [[tensor]], SEED)
    groups = (tensor < 0).view(-1, 256).sum(1)  # 2**12 groups of 128 words of two numbers
    assert len(groups) == 1 << 12
    assert int(groups.max()) == 2
    assert 0.9 < groups.double().mean() < 1.1
    within = (bits_of(SEED, 0, 5) >> 33) * 128 >> 31
    changed = (tensor.view(-1, 128, 2)[5] < 0).any(1)
    assert changed.nonzero().flatten().tolist() in ([within], [])


def test_another_seed_gives_others_and_the_same_one_the_same() -> None:
    plan, drawn = planned(256), torch.randn(256)
    flipped = [drawn.clone() for _ in range(3)]
    for tensor, seed in zip(flipped, (1, 1, 3), strict=True):
        late_content.settle([plan], [[tensor]], seed)
    assert torch.equal(flipped[0], flipped[1])
    assert not torch.equal(flipped[0], flipped[2])


@pytest.mark.parametrize(
    "plan",
    [
        planned(8, distribution=Uniform(low=0.0, high=3.0)),
        planned(8, distribution=Uniform(low=-2.0, high=2.0)),
        planned(8, distribution=Normal(mean=2.0)),
        planned(8, distribution=Probabilities()),
        planned(8, dtype="int32", distribution=Permutation()),
        planned(8, dtype="int32", distribution=PageTable(pages=20)),
        planned(8, dtype="bool", distribution=Boolean(rate=0.1)),
        planned(8, role="static"),
        InputPlan(TensorPlan("x", (8,), "float32"), "file"),
    ],
    ids=[
        "no power of two",
        "not from zero",
        "normal, not around zero",
        "rows that add up",
        "each number once",
        "each page once",
        "unfair coins",
        "weights",
        "from a file",
    ],
)
def test_what_would_no_longer_be_legal_stays(plan: InputPlan) -> None:
    tensor = torch.ones(8, dtype=getattr(torch, plan.tensor.dtype))
    late_content.settle([plan], [[tensor]], SEED)
    assert torch.equal(tensor, torch.ones_like(tensor))


def test_what_is_shorter_than_a_word_or_lies_apart_stays() -> None:
    single, strided = torch.ones(1), torch.ones(8, 2)[:, 0]
    late_content.settle([planned(1)], [[single]], SEED)
    late_content.settle([planned(8)], [[strided]], SEED)
    assert single.item() == 1
    assert torch.equal(strided, torch.ones(8))
