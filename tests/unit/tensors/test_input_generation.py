"""Declared distributions: what is drawn is legal, differs from call to call, and is the same in every process."""

from __future__ import annotations

import functools
import itertools
import math
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flashinfer_bench.data import Workload
from flashinfer_bench.data.distributions import (
    FIXED_FORMS,
    Boolean,
    Distribution,
    ExpertRouting,
    FloatForm,
    IndexPointers,
    Integers,
    Normal,
    PageTable,
    Permutation,
    Probabilities,
    SequenceLengths,
    Uniform,
)
from flashinfer_bench.tensors import input_generation
from flashinfer_bench.tensors.dtypes import torch_dtype
from flashinfer_bench.tensors.legality import illegality
from flashinfer_bench.tensors.outputs import fingerprint
from tests.marks import mostly_full

FLOATS = ["float32", "float16", "bfloat16"]
LOW_BIT = ["float8_e4m3fn", "float8_e5m2"]
INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
Case = tuple[Distribution, tuple[int, ...], str]

small_shapes = st.lists(st.integers(0, 6), max_size=3).map(tuple)
with_rows = st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple)


@st.composite
def ranges(draw: st.DrawFn) -> Case:
    dtype = draw(st.sampled_from(list(INTEGERS)))
    half = 1 << INTEGERS[dtype] - 1
    low = draw(st.integers(-half, half - 1))
    high = draw(st.integers(low + 1, min(half, low + (1 << 62))))
    return Integers(low=low, high=high), draw(small_shapes), dtype


@st.composite
def uniforms(draw: st.DrawFn) -> Case:
    low = draw(st.floats(-100, 100, width=16))
    width = draw(st.floats(0.5, 200, width=16))
    dtype = draw(st.sampled_from([*FLOATS, *LOW_BIT]))
    return Uniform(low=low, high=low + max(width, abs(low))), draw(small_shapes), dtype


@st.composite
def index_pointers(draw: st.DrawFn) -> Case:
    count = draw(st.integers(0, 30))
    shortest = draw(st.integers(0, 4))
    longest = draw(st.none() | st.integers(shortest, shortest + 5))
    most = count * (shortest + 100 if longest is None else longest)
    total = draw(st.integers(count * shortest, most))
    return IndexPointers(total=total, shortest=shortest, longest=longest), (count + 1,), "int32"


@st.composite
def page_tables(draw: st.DrawFn) -> Case:
    shape = draw(small_shapes)
    is_unique = draw(st.booleans())
    least = torch.Size(shape).numel() if is_unique else 1
    pages = draw(st.integers(max(1, least), least + 300))
    return PageTable(pages=pages, unique=is_unique), shape, "int32"


normals = st.tuples(
    st.builds(Normal, mean=st.floats(-10, 10), std=st.floats(0.01, 10)),
    small_shapes,
    st.sampled_from([*FLOATS, *LOW_BIT]),
)
probabilities = st.tuples(
    st.builds(Probabilities, temperature=st.floats(0.05, 10)), with_rows, st.sampled_from(FLOATS)
)
permutations = st.tuples(st.just(Permutation()), with_rows, st.sampled_from(["int8", "int64"]))
booleans = st.tuples(st.builds(Boolean, rate=st.floats(0, 1)), small_shapes, st.just("bool"))
cases = st.one_of(
    normals,
    probabilities,
    permutations,
    booleans,
    ranges(),
    uniforms(),
    index_pointers(),
    page_tables(),
)


def generator(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def calls_of(case: Case, count: int, *, trial: int = 7) -> list[torch.Tensor]:
    """The content of some calls of one trial."""
    distribution, shape, dtype = case
    pool = input_generation.draw_pool(distribution, shape, torch_dtype(dtype), generator(trial))
    made = []
    for seed in range(count):
        out = torch.empty(shape, dtype=pool.dtype)
        input_generation.fill(distribution, pool, out, random.Random(seed))
        made.append(out)
    return made


@given(cases, st.integers(0, 2**40))
@settings(max_examples=300, deadline=None)
def test_whatever_is_drawn_is_legal_for_a_trial_and_for_every_call(case: Case, seed: int) -> None:
    distribution, shape, dtype = case

    whole = input_generation.draw(distribution, shape, torch_dtype(dtype), generator(seed))
    calls = calls_of(case, 5, trial=seed)

    assert (whole.shape, whole.dtype) == (shape, torch_dtype(dtype))
    assert [illegality(distribution, each) for each in [whole, *calls]] == [None] * 6


VARYING: list[Case] = [
    (Normal(mean=3.0, std=0.1), (50,), "float32"),
    (Normal(), (50,), "float8_e4m3fn"),
    (Uniform(low=-2.0, high=5.0), (50,), "bfloat16"),
    (Uniform(low=0.0, high=1.0), (50,), "float8_e5m2"),
    (Integers(low=0, high=1000), (50,), "int32"),
    (Integers(low=-128, high=128), (50,), "int8"),
    (Probabilities(), (1, 50), "float32"),
    (Probabilities(), (40, 8), "float16"),
    (Permutation(), (300,), "int64"),
    (Permutation(), (7, 100), "int32"),
    (PageTable(pages=500), (4, 100), "int32"),
    (PageTable(pages=500, unique=False), (4, 200), "int32"),
    (Boolean(rate=0.3), (100,), "bool"),
    (FloatForm(form="cosine"), (50,), "float32"),
]


@pytest.mark.parametrize("case", VARYING, ids=str)
def test_no_call_sees_the_content_of_another(case: Case) -> None:
    calls = calls_of(case, 100)

    assert len({fingerprint([each]) for each in calls}) >= 99  # chance may repeat one


def test_a_longer_input_begins_like_a_short_one() -> None:
    count = input_generation._LONGEST_AT_ONCE
    pool = torch.randn(count + input_generation.WINDOW_SLACK)
    short, long = torch.empty(1000), torch.empty(count)

    input_generation.fill(Normal(), pool, short, random.Random(4))
    input_generation.fill(Normal(), pool, long, random.Random(4))

    assert torch.equal(short, long[:1000])


def test_index_pointers_are_the_same_in_every_call_so_that_the_work_is() -> None:
    calls = calls_of((IndexPointers(total=1000, shortest=0), (30,), "int32"), 10)

    assert len({fingerprint([each]) for each in calls}) == 1


def test_integers_of_a_call_are_not_those_of_the_pool() -> None:
    """Else a kernel could compute everything once, and copy the right part of it in each call."""
    case: Case = (Integers(low=0, high=1 << 40), (5000,), "int64")

    first, second = (set(each.tolist()) for each in calls_of(case, 2))

    assert len(first & second) < 10


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
def test_booleans_are_true_as_often_as_declared(rate: float) -> None:
    (content,) = calls_of((Boolean(rate=rate), (20_000,), "bool"), 1)

    assert content.double().mean().item() == pytest.approx(rate, abs=0.02)


@pytest.mark.parametrize("case", [VARYING[4], VARYING[2], VARYING[11]], ids=str)
def test_a_range_is_used_from_end_to_end_whatever_the_call(case: Case) -> None:
    distribution, _, dtype = case
    for content in calls_of((distribution, (20_000,), dtype), 20):
        wide = content.double()

        spread = (wide.max() - wide.min()).item()

        width = (
            distribution.pages
            if isinstance(distribution, PageTable)
            else distribution.high - distribution.low  # type: ignore[union-attr]
        )
        assert 0.49 * width < spread <= width


def test_a_low_temperature_makes_rows_with_a_few_large_values() -> None:
    sharp, flat = (
        calls_of((Probabilities(temperature=temperature), (20, 1000), "float32"), 1)[0]
        .amax(-1)
        .mean()
        .item()
        for temperature in (0.2, 1.0)
    )

    assert sharp > 0.1
    assert flat < 0.05


def test_pieces_have_many_lengths() -> None:
    pointers = input_generation.draw(
        IndexPointers(total=10_000, shortest=1, longest=400), (101,), torch.int32, generator()
    )

    lengths = pointers.diff()

    assert len(lengths.unique()) > 30
    assert int(lengths.max()) == 400


BIG: list[Case] = [
    (Probabilities(), (1, 1_000_003), "float32"),
    (Probabilities(temperature=0.3), (3, 200_001), "bfloat16"),
    (Probabilities(), (4000, 129), "float16"),
    (Normal(mean=1.0, std=2.0), (700_001,), "bfloat16"),
    (Uniform(low=-1.0, high=3.0), (700_001,), "float16"),
    (Uniform(low=-1.0, high=3.0), (700_001,), "float32"),
    (Integers(low=-5, high=1001), (700_001,), "int32"),
    (Permutation(), (2000, 301), "int64"),
    (PageTable(pages=800_000), (700_001,), "int32"),
    (IndexPointers(total=1_000_000, shortest=0, longest=300), (5001,), "int32"),
    (ExpertRouting(experts=64), (3000, 6), "int64"),
    (SequenceLengths(recorded=[1, 7, 900]), (64,), "int32"),
    (Boolean(rate=0.2), (700_001,), "bool"),
]


@functools.cache
def prints() -> list[str]:
    """Fingerprints of what a trial and a call hold."""
    made = []
    for case in BIG:
        distribution, shape, dtype = case
        whole = input_generation.draw(distribution, shape, torch_dtype(dtype), generator(3))
        made.append(fingerprint([whole, *calls_of(case, 2)]).hex())
    return made


@pytest.mark.parametrize("threads", mostly_full([1, 2, 3], 3))
def test_another_process_with_other_threads_draws_the_same_bits(threads: int) -> None:
    script = f"""
        import torch
        torch.set_num_threads({threads})
        from tests.unit.tensors.test_input_generation import prints
        print(*prints())
    """

    there = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )

    assert there.stdout.split() == prints()


ILLEGAL: list[tuple[Distribution, Any, str]] = [
    (Uniform(low=0.0, high=1.0), [0.5, 1.0], "values reach from 0.5 to 1, outside [0, 1)"),
    (Integers(low=0, high=3), [0, 3], "values reach from 0 to 3, outside [0, 3)"),
    (Normal(), [float("nan")], "a value is not finite"),
    (Probabilities(), [[0.5, 0.4]], "a row adds up to something 0.1 off one"),
    (Probabilities(), [[1.5, -0.5]], "a probability is negative"),
    (Permutation(), [[0, 1, 2], [0, 2, 2]], "a row is no permutation"),
    (IndexPointers(total=5), [1, 5], "it starts with 1, not 0"),
    (IndexPointers(total=5), [0, 2, 4], "it ends with 4, not 5"),
    (IndexPointers(total=5, shortest=0), [0, 6, 5], "a piece has length -1, less than 0"),
    (IndexPointers(total=5, shortest=0, longest=3), [0, 4, 5], "a piece has length 4, more than 3"),
    (PageTable(pages=4), [0, 4], "values reach from 0 to 4, outside [0, 4)"),
    (PageTable(pages=4), [1, 1], "a page stands in it twice"),
    (Boolean(), [1], "it is torch.int64"),
]


@pytest.mark.parametrize(("distribution", "content", "said"), ILLEGAL)
def test_what_breaks_the_promise_is_seen(
    distribution: Distribution, content: Any, said: str
) -> None:
    assert illegality(distribution, torch.tensor(content)) == said


def test_every_declared_kind_can_be_drawn() -> None:
    """A kind added to the format and forgotten here would show."""
    union = Workload.model_json_schema()["$defs"]["RandomInput"]["properties"]["distribution"]
    kinds = set(union["anyOf"][0]["discriminator"]["mapping"])

    drawn = {case[0].type for case in [*VARYING, *BIG]}

    assert drawn == kinds


@pytest.mark.parametrize(
    "form",
    ["ones", "zeros", "causal_mask", "decay", "zero_or_one", "cosine", "sine", "positive"],
)
def test_floats_of_a_form_keep_it_in_every_call(form: str) -> None:
    distribution, out = FloatForm(form=form), torch.empty(6, 6)
    assert distribution.fault("float32", (6, 6), {"n": 6}) is None
    seed = torch.Generator().manual_seed(1)
    draw = input_generation.draw if form in FIXED_FORMS else input_generation.draw_pool
    pool = draw(distribution, (6, 6), torch.float32, seed)
    if form in FIXED_FORMS:
        out.copy_(pool)
    else:
        input_generation.fill(distribution, pool, out, random.Random(2))
    lowest = torch.finfo(torch.float32).min
    holds = {
        "ones": (out == 1).all(),
        "zeros": (out == 0).all(),
        "causal_mask": (out == torch.full((6, 6), lowest).triu(1)).all(),
        "decay": (out.diff(dim=-1) <= 0).all() and (out <= 0).all(),
        "zero_or_one": ((out == 0) | (out == 1)).all() and 0 < out.sum() < out.numel(),
        "cosine": (out.abs() <= 1).all() and out.std() > 0,
        "sine": (out.abs() <= 1).all() and out.std() > 0,
        "positive": (out >= 0.1).all(),
    }

    assert holds[form]


def _load(content: torch.Tensor, experts: int) -> torch.Tensor:
    return torch.bincount(content.reshape(-1).long(), minlength=experts).double() / content.numel()


@pytest.mark.parametrize(("experts", "row", "tokens"), [(8, 2, 48), (64, 6, 512), (4, 2, 24)])
def test_at_twice_the_batch_experts_get_the_recorded_shares(
    experts: int, row: int, tokens: int
) -> None:
    scores = torch.randn(tokens, experts, generator=generator()) + torch.arange(experts) / experts
    recorded = scores.topk(row).indices
    shares = [round(share, 6) for share in _load(recorded, experts).tolist()]
    routing = ExpertRouting(experts=experts, load=shares)

    assert routing.fault("int64", (2 * tokens, row), {}) is None
    drawn = input_generation.draw(routing, (2 * tokens, row), torch.int64, generator())

    assert illegality(routing, drawn) is None
    assert (_load(drawn, experts) - _load(recorded, experts)).abs().sum() / 2 < 0.05


def test_every_call_has_the_same_load_and_other_rows() -> None:
    routing = ExpertRouting(experts=4, load=[0.5, 0.3, 0.2, 0.0])
    calls = calls_of((routing, (40, 2), "int32"), 5)

    assert {tuple(_load(call, 4).tolist()) for call in calls} == {(0.5, 0.3, 0.2, 0.0)}
    assert len({fingerprint(call) for call in calls}) > 1


@pytest.mark.parametrize(
    ("routing", "fault"),
    [
        (ExpertRouting(experts=2), "has rows of 3 different experts, and there are 2"),
        (ExpertRouting(experts=4, load=[0.5, 0.5]), "has 2 shares for 4 experts"),
        (ExpertRouting(experts=4, load=[0.1] * 4), "has shares that add up to 0.4, not 1"),
        (
            ExpertRouting(experts=4, load=[0.5, 0.3, 0.1, 0.1]),
            "gives an expert 0.5 of the choices; in rows of 3 it gets 0.333333 at most",
        ),
    ],
)
def test_a_load_that_rows_cannot_have_is_refused(routing: ExpertRouting, fault: str) -> None:
    assert routing.fault("int64", (5, 3), {}) == fault


def test_lengths_keep_their_skew_at_another_batch_size() -> None:
    lengths = SequenceLengths(recorded=[10, 10, 10, 4000], longest=2048)

    drawn = input_generation.draw(lengths, (16,), torch.int32, generator())

    assert sorted(drawn.tolist()) == [10] * 12 + [2048] * 4


def pieces_of(out: torch.Tensor, pool: torch.Tensor) -> Iterator[tuple[Any, torch.Tensor]]:
    """Give pieces of a large input, each with the windows of the pool that it may come from."""
    for first in range(0, len(out), input_generation._PIECE):
        piece = out[first : first + input_generation._PIECE]
        near = pool[first : first + len(piece) + input_generation.WINDOW_SLACK - 1]
        yield piece, near.unfold(0, len(piece), 1)


@pytest.mark.parametrize("count", [16_373, 20_000])
def test_each_piece_of_a_large_input_comes_from_a_window_of_its_own(count: int) -> None:
    """Else sums over the pool, for each place of the pattern, would give sums over whole rows."""
    pool = torch.randn(count + input_generation.WINDOW_SLACK)
    out = torch.full((count,), math.nan)

    input_generation.fill(Normal(), pool, out, random.Random(5))

    found, factors = [], []
    for piece, windows in pieces_of(out, pool):
        ratios = piece / windows
        fits = ((ratios > 0.37) & (ratios <= 1)).all(1).nonzero().flatten().tolist()
        found.append(fits)
        factors.append(ratios[fits[0]])
    assert all(len(each) == 1 for each in found[:-1])  # the last piece may be short
    assert len({each[0] for each in found}) > 0.9 * len(found)
    places = {tuple(each[:20].tolist()) for each in factors[:-1]}
    assert len(places) > 0.9 * (len(factors) - 1)  # of the pattern


@pytest.mark.parametrize("count", [300, 20_000])
def test_no_window_of_integers_is_only_turned(count: int) -> None:
    """Else running sums over the pool, for each step, would give sums over rows."""
    pool = torch.randint(1000, (count + input_generation.WINDOW_SLACK,))
    out = torch.empty(count, dtype=torch.int64)

    input_generation.fill(Integers(low=0, high=1000), pool, out, random.Random(5))

    assert 0 <= int(out.min()) <= int(out.max()) < 1000
    assert len(out.unique()) > 0.9 * min(count, 1000) * (1 - math.exp(-1)) - 20
    for piece, windows in list(pieces_of(out, pool))[:-1]:
        shifts = (piece - windows) % 1000
        assert not (shifts == shifts[:, :1]).all(1).any()


@pytest.mark.parametrize(
    ("distribution", "dtype"),
    [
        (Boolean(rate=0.3), torch.bool),
        (Normal(), torch.float8_e4m3fn),
    ],
)
def test_pieces_that_no_factor_may_touch_are_of_two_windows_of_their_own(
    distribution: Distribution, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(3)
    pool = input_generation.draw_pool(distribution, (20_000,), dtype, generator)
    out = torch.empty(20_000, dtype=dtype)

    input_generation.fill(distribution, pool, out, random.Random(5))

    bits = torch.uint8 if dtype.itemsize == 1 else torch.int32
    found = set()
    for piece, windows in itertools.islice(pieces_of(out.view(bits), pool.view(bits)), 100):
        shares = (windows == piece).float().mean(1)
        first, second = shares.topk(2).indices.tolist()
        if dtype is not torch.bool:  # which fit by chance, too
            assert shares.max() < 1
            assert ((piece == windows[first]) | (piece == windows[second])).all()
        found.add(first)
    assert len(found) > 50


@pytest.mark.parametrize(
    ("form", "low", "high"), [("positive", 0.1, math.inf), ("cosine", -1, 1), ("sine", -1, 1)]
)
@pytest.mark.parametrize("count", [500, 20_000])
def test_forms_have_other_values_than_their_pool_which_tables_could_hold(
    form: Literal["positive", "cosine", "sine"], low: float, high: float, count: int
) -> None:
    distribution = FloatForm(form=form)
    generator = torch.Generator().manual_seed(3)
    pool = input_generation.draw_pool(distribution, (count,), torch.float32, generator)
    out = torch.empty(count)

    input_generation.fill(distribution, pool, out, random.Random(5))

    assert low <= float(out.min()) < float(out.max()) <= high
    assert float(torch.isin(out, pool).float().mean()) < 0.01


@pytest.mark.parametrize("count", [500, 16_372])
@pytest.mark.parametrize(
    ("distribution", "dtype"),
    [
        (Boolean(rate=0.3), torch.bool),
        (Normal(), torch.float8_e4m3fn),
        (FloatForm(form="zero_or_one"), torch.float32),
    ],
)
def test_what_no_factor_may_touch_is_no_window_of_its_pool(
    distribution: Distribution, dtype: torch.dtype, count: int
) -> None:
    """One of 16,384 windows could be looked up; each element is one of two windows', in its own place."""
    generator = torch.Generator().manual_seed(3)
    pool = input_generation.draw_pool(distribution, (count,), dtype, generator)
    out = torch.empty(count, dtype=dtype)

    input_generation.fill(distribution, pool, out, random.Random(5))

    bits = torch.uint8 if dtype.itemsize == 1 else torch.int32
    windows = pool.view(bits).unfold(0, count, 1)
    shares = (windows[:, :200] == out.view(bits)[:200]).float().mean(1)
    first, second = shares.topk(2).indices.tolist()
    assert shares.max() < 1
    made = (out.view(bits) == windows[first]) | (out.view(bits) == windows[second])
    assert made.all()
