"""What of inputs is written late: by the published mixer, the same everywhere, and as legal as before."""

from __future__ import annotations

import pytest
import torch

from flashinfer_bench.data.distributions import (
    Boolean,
    Distribution,
    ExpertRouting,
    FloatForm,
    Integers,
    Normal,
    PageTable,
    Permutation,
    Probabilities,
    Uniform,
)
from flashinfer_bench.tensors import late_inputs
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


def bits_of(seed: int, chunk: int, group: int) -> int:
    return splitmix64((seed + 0x9E3779B97F4A7C15 * (1 + (chunk << 14) + group)) & ALL)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_only_signs_change_and_about_half_of_them(dtype: str) -> None:
    plan = planned(64, 64, dtype=dtype)
    drawn = torch.randn(64, 64).add_(0.5).to(getattr(torch, dtype))
    flipped = drawn.clone()
    late_inputs.rewrite([plan], [[flipped]], SEED)
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
    written = drawn.clone()
    plan = planned(64, 64, dtype=dtype, distribution=distribution)
    late_inputs.rewrite([plan], [[written]], SEED)
    before, after = drawn.flatten().tolist(), written.flatten().tolist()
    assert all(new in (old, total - old) for old, new in zip(before, after, strict=True))
    changed = sum(old != new for old, new in zip(before, after, strict=True))
    assert 0.45 < changed / len(before) < 0.55


ANY_ORDER = {
    "floats spread evenly": planned(64, 64, distribution=Uniform(low=-1.0, high=1.0)),
    "not around zero": planned(64, 64, dtype="bfloat16", distribution=Normal(mean=2.0)),
    "unfair coins": planned(64, 64, dtype="bool", distribution=Boolean(rate=0.2)),
    "bytes": planned(64, 64, dtype="float8_e4m3fn", distribution=Uniform(low=0.0, high=2.0)),
    "a form": planned(64, 64, distribution=FloatForm(form="positive")),
    "each page once": planned(64, 64, dtype="int32", distribution=PageTable(pages=5000)),
}
IN_ROWS = {
    "probabilities": planned(64, 64, distribution=Probabilities()),
    "each number once": planned(64, 64, dtype="int64", distribution=Permutation()),
    "experts": planned(512, 8, dtype="int32", distribution=ExpertRouting(experts=64)),
}


@pytest.mark.parametrize("name", [*ANY_ORDER, *IN_ROWS])
def test_neighbours_change_places_and_rows_keep_what_they_hold(name: str) -> None:
    plan = {**ANY_ORDER, **IN_ROWS}[name]
    assert plan.distribution is not None
    tensor, dtype = plan.tensor, getattr(torch, plan.tensor.dtype)
    before = draw(plan.distribution, tensor.shape, dtype, torch.Generator().manual_seed(1))
    after = before.clone()
    late_inputs.rewrite([plan], [[after]], SEED)
    pairs = [each.view(-1).view(torch.uint8).view(-1, 2, 8) for each in (before, after)]
    stays = (pairs[0] == pairs[1]).flatten(1).all(1)
    changes = (pairs[0] == pairs[1].flip(1)).flatten(1).all(1)
    assert bool((stays | changes).all())
    assert 0.4 < (~stays).double().mean() <= 0.55
    rows = [each.view(torch.uint8) if name == "bytes" else each for each in (before, after)]
    rows = [each.to(torch.float64).sort(-1).values for each in rows]
    if name in IN_ROWS:
        assert torch.equal(*rows)
    assert torch.equal(*(each.flatten().sort().values for each in rows))


def test_fair_coins_are_turned_over() -> None:
    coins = torch.rand(4096) < 0.5
    written = coins.clone()
    plan = planned(4096, dtype="bool", distribution=Boolean())
    late_inputs.rewrite([plan], [[written]], SEED)
    assert set(written.view(torch.uint8).tolist()) == {0, 1}
    assert 0.45 < (written != coins).double().mean() < 0.55


def test_the_bits_are_those_of_splitmix64() -> None:
    sets = [[torch.ones(4, 2), 3, torch.ones(2, 3)] for _ in range(2)]
    plans = [planned(4, 2), planned(1, dtype="int64"), planned(2, 3)]
    late_inputs.rewrite(plans, sets, SEED)
    tensors = [each for arguments in sets for each in (arguments[0], arguments[2])]
    for place, tensor in enumerate(tensors):
        words = tensor.view(-1).view(torch.int64).tolist()
        for group, word in enumerate(words):
            mixed = splitmix64(bits_of(SEED, place, group)) & 0x8000_0000_8000_0000
            assert word & ALL == 0x3F80_0000_3F80_0000 ^ mixed


def test_of_a_large_tensor_one_word_of_each_group_may_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(late_inputs, "_MOST_GROUPS", 1 << 15)
    plan, tensor = planned(1 << 20), torch.ones(1 << 20)
    late_inputs.rewrite([plan], [[tensor]], SEED)
    groups = (tensor < 0).view(-1, 32).sum(1)  # 2**15 groups of 16 words of two numbers
    assert len(groups) == 1 << 15
    assert int(groups.max()) == 2
    assert 0.9 < groups.double().mean() < 1.1
    within = (bits_of(SEED, 1, 5) >> 33) * 16 >> 31
    changed = (tensor.view(-1, 16, 2)[(1 << 14) + 5] < 0).any(1)
    assert changed.nonzero().flatten().tolist() in ([within], [])


def test_another_seed_gives_others_and_the_same_one_the_same() -> None:
    plan, drawn = planned(256), torch.randn(256)
    flipped = [drawn.clone() for _ in range(3)]
    for tensor, seed in zip(flipped, (1, 1, 3), strict=True):
        late_inputs.rewrite([plan], [[tensor]], seed)
    assert torch.equal(flipped[0], flipped[1])
    assert not torch.equal(flipped[0], flipped[2])


@pytest.mark.parametrize(
    "plan",
    [
        planned(6, 3, distribution=Probabilities()),
        planned(6, 3, dtype="int32", distribution=Permutation()),
        planned(6, 2, dtype="int32", distribution=ExpertRouting(experts=8)),
        planned(8, role="static"),
        planned(8, role="metadata"),
        InputPlan(TensorPlan("x", (8,), "float32"), "file"),
        InputPlan(TensorPlan("x", (8,), "float32"), "draw"),
        InputPlan(TensorPlan("x", (8,), "float32"), "generated"),
    ],
    ids=[
        "probabilities in short rows",
        "each number once in short rows",
        "experts in short rows",
        "weights",
        "metadata",
        "from a file",
        "the same in a trial",
        "by a function",
    ],
)
def test_what_would_no_longer_be_legal_stays(plan: InputPlan) -> None:
    count = plan.tensor.element_count
    tensor = torch.arange(count, dtype=getattr(torch, plan.tensor.dtype)).view(plan.tensor.shape)
    before = tensor.clone()
    late_inputs.rewrite([plan], [[tensor]], SEED)
    assert torch.equal(tensor, before)


def test_what_is_shorter_than_a_word_or_lies_apart_stays() -> None:
    single, strided = torch.ones(1), torch.ones(8, 2)[:, 0]
    late_inputs.rewrite([planned(1)], [[single]], SEED)
    late_inputs.rewrite([planned(8)], [[strided]], SEED)
    assert single.item() == 1
    assert torch.equal(strided, torch.ones(8))
