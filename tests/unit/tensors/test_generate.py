from __future__ import annotations

import math
import random
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils._device import DeviceContext

from flashinfer_bench.data.distributions import Normal, Probabilities, Uniform
from flashinfer_bench.tensors import input_generation
from flashinfer_bench.tensors.dtypes import torch_dtype
from flashinfer_bench.tensors.generate import InputMaker, draw
from flashinfer_bench.tensors.outputs import fingerprint
from flashinfer_bench.tensors.planned import (
    InputPlan,
    TensorPlan,
)
from tests.marks import mostly_full

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashinfer_bench.data.distributions import Distribution

CPU = torch.device("cpu")
FLOATS = ["float32", "float16", "bfloat16"]
LOW_BIT = ["float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int64", "int32", "int16"]
EVERY_DTYPE = [*FLOATS, *LOW_BIT, *INTEGERS, "int8", "bool"]


def planned(
    source: Any = "window",
    *,
    name: str = "x",
    shape: tuple[int, ...] = (1000,),
    dtype: str = "float32",
    **rest: Any,
) -> InputPlan:
    return InputPlan(TensorPlan(name, shape, dtype), source, **rest)


def maker(*plans: InputPlan, trial_seed: int = 1, **rest: Any) -> InputMaker:
    made = InputMaker(plans, CPU, **rest)
    made.open_trial(trial_seed)
    return made


def content(arguments: list[Any]) -> list[Any]:
    """What the arguments are now; buffers are reused by the next call."""
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]


def drawn(dtype: str, *, count: int = 20_000, seed: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return draw(TensorPlan("x", (count,), dtype), generator)


def test_buffers_that_a_call_put_elsewhere_are_told() -> None:
    made = maker(planned(), planned("scalar", name="s", shape=()))
    (first, _) = made.prepare(5, 2)
    assert made.are_as_made()

    first[0].set_(torch.zeros(1000))

    assert not made.are_as_made()
    made.forget_buffers()
    made.prepare(6, 2)
    assert made.are_as_made()


class Other(torch.Tensor):
    pass


@pytest.mark.parametrize("how", ["class", "method", "history"])
def test_buffers_that_are_no_plain_tensors_any_more_are_told(how: str) -> None:
    made = maker(planned())
    ((x,),) = made.prepare(5, 1)
    x.seen = 3  # any kernel may leave a note
    assert made.are_as_made()

    match how:
        case "class":
            x.__class__ = Other
        case "method":
            x.view = x.reshape
        case _:
            x.requires_grad_()

    assert not made.are_as_made()


def test_what_inputs_are_made_of_is_plain_data() -> None:
    made = maker(planned(), planned(dtype="bool"))
    made.prepare(5, 1)
    assert not made.is_disguised()

    (pool, _) = made._pools
    pool.__class__ = Other

    assert made.is_disguised()


USUAL = """
import sys
import torch
from flashinfer_bench.data.distributions import FloatForm, Probabilities, Uniform
from tests.unit.tensors.test_generate import EVERY_DTYPE, FLOATS, maker, planned
from flashinfer_bench.tensors.outputs import fingerprint
dtype, device = sys.argv[1:]
torch.set_default_dtype(getattr(torch, dtype))
torch.set_default_device(None if device == "none" else device)
drawn = [Probabilities(), Uniform(low=0.0, high=1.0)]
plans = [planned(s, dtype=d, shape=(300, 70)) for d in EVERY_DTYPE for s in ("window", "draw")]
plans += [planned("draw", shape=(30, 70), distribution=each) for each in drawn]
forms = ("decay", "causal_mask", "positive", "cosine", "zero_or_one")
plans += [planned("draw", shape=(70, 70), distribution=FloatForm(form=each)) for each in forms]
made = maker(*plans, planned("scalar", shape=()))
(arguments,) = made.prepare(1234, 1)
print(fingerprint(arguments).hex(), arguments[-1], torch.get_default_dtype())
"""


def test_no_mode_sees_how_inputs_are_made() -> None:
    seen = []

    class Default(DeviceContext):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    made = maker(planned("window", shape=(300, 700)))
    with Default("cpu"):
        made.prepare(1234, 1)

    assert not seen


@pytest.mark.parametrize("device", ["none", "meta"])
def test_defaults_of_torch_that_somebody_changed_change_no_inputs_and_stay(device: str) -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", USUAL, *given], capture_output=True, text=True, check=True
        ).stdout.split()
        for given in (("float32", "none"), ("float64", device), ("bfloat16", device))
    ]

    assert len({tuple(each[:2]) for each in said}) == 1
    assert [each[2] for each in said] == ["torch.float32", "torch.float64", "torch.bfloat16"]


SEEDED = """
from tests.unit.tensors.test_generate import EVERY_DTYPE, maker, planned
from flashinfer_bench.tensors.outputs import fingerprint
from flashinfer_bench.data.distributions import Probabilities
import torch
torch.set_num_threads({threads})
windows = [planned(dtype=d, shape=(300, 70)) for d in ("float32", "float16", "bfloat16")]
draws = [planned("draw", dtype=d, shape=(300, 70)) for d in EVERY_DTYPE]
probabilities = planned("draw", shape=(30, 700), distribution=Probabilities())
made = maker(*windows, *draws, probabilities, planned("scalar", shape=()), trial_seed=99)
(arguments,) = made.prepare(1234, 1)
print(fingerprint(arguments).hex(), arguments[-1])
"""


@pytest.mark.parametrize("threads", mostly_full([1, 2], 2))
def test_another_process_makes_the_same_bits_from_the_same_seeds(threads: int) -> None:
    threads_here = torch.get_num_threads()
    windows = [planned(dtype=dtype, shape=(300, 70)) for dtype in FLOATS]
    draws = [planned("draw", dtype=dtype, shape=(300, 70)) for dtype in EVERY_DTYPE]
    probabilities = planned("draw", shape=(30, 700), distribution=Probabilities())
    made = maker(*windows, *draws, probabilities, planned("scalar", shape=()), trial_seed=99)
    (here,) = made.prepare(1234, 1)

    there = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SEEDED.format(threads=threads))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert there == [fingerprint(here).hex(), str(here[-1])]
    assert torch.get_num_threads() == threads_here


def test_another_call_seed_gives_other_content() -> None:
    made = maker(planned())

    (first,) = content(made.prepare(1, 1)[0])
    (second,) = content(made.prepare(2, 1)[0])

    assert not torch.equal(first, second)


def test_the_same_call_seed_gives_the_same_content_again() -> None:
    made = maker(planned(), planned(name="z", dtype="bfloat16"))

    first = content(made.prepare(1, 1)[0])
    made.prepare(2, 3)
    again = content(made.prepare(1, 1)[0])

    assert [torch.equal(a, b) for a, b in zip(first, again, strict=True)] == [True, True]


def test_another_trial_seed_gives_other_pools() -> None:
    (first,) = content(maker(planned(), trial_seed=1).prepare(5, 1)[0])
    (second,) = content(maker(planned(), trial_seed=2).prepare(5, 1)[0])

    assert not torch.equal(first, second)
    assert (first / second).std() > 0.1  # nor is one a multiple of the other


def test_a_hundred_calls_have_a_hundred_contents() -> None:
    made = maker(planned())

    seen = {fingerprint(made.prepare(seed, 1)[0]) for seed in range(100)}

    assert len(seen) == 100


def test_inputs_of_one_call_are_windows_at_places_of_their_own() -> None:
    first, second = maker(planned(), planned(name="z")).prepare(5, 1)[0]

    assert not torch.equal(first, second)
    assert (first / second).std() > 0.1


def test_sets_of_one_sample_differ_and_lie_in_different_memory() -> None:
    sets = maker(planned()).prepare(5, 4)

    assert len({fingerprint(arguments) for arguments in sets}) == 4
    assert len({arguments[0].data_ptr() for arguments in sets}) == 4


@pytest.mark.parametrize("position", [0, 2, 6])
def test_a_set_does_not_depend_on_how_many_come_after_it(position: int) -> None:
    plans = [planned(), planned("draw", name="i", dtype="int32"), planned(name="z")]

    alone = content(maker(*plans).prepare(5, position + 1)[position])
    among_others = content(maker(*plans).prepare(5, 7)[position])

    assert fingerprint(alone) == fingerprint(among_others)


@pytest.mark.parametrize("dtype", FLOATS)
def test_windows_are_never_larger_than_the_plain_draw(dtype: str) -> None:
    made = maker(planned(dtype=dtype, shape=(50_000,)))

    spreads = [made.prepare(seed, 1)[0][0].double().std().item() for seed in range(20)]
    largest = max(made.prepare(seed, 1)[0][0].abs().max().item() for seed in range(20))

    assert max(spreads) < 1.02
    assert min(spreads) > 0.48
    assert largest < 6.0
    assert max(spreads) / min(spreads) > 1.2  # the scale is drawn too


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4)])
def test_any_shape_is_filled(shape: tuple[int, ...]) -> None:
    windowed, whole = maker(planned(shape=shape), planned("draw", shape=shape)).prepare(1, 1)[0]

    assert windowed.shape == whole.shape == shape
    assert windowed.is_contiguous()
    assert bool(windowed.isfinite().all())


def test_drawn_inputs_stay_the_same_within_a_trial() -> None:
    made = maker(planned("draw", dtype="int32"))

    first = content(made.prepare(1, 1)[0])
    second = content(made.prepare(2, 1)[0])
    made.open_trial(2)
    third = content(made.prepare(1, 1)[0])

    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[0], third[0])


def test_a_dynamic_input_that_a_kernel_changed_is_whole_again_in_the_next_call() -> None:
    made = maker(planned("draw", dtype="int32"), planned())
    intact = content(made.prepare(1, 1)[0])

    for argument in made.prepare(1, 1)[0]:
        argument.zero_()
    again = content(made.prepare(1, 1)[0])

    assert fingerprint(again) == fingerprint(intact)


def test_static_inputs_are_constant_within_a_trial_and_redrawn_for_the_next() -> None:
    made = maker(planned("draw", role="static"), planned(name="z"))

    first = content(made.prepare(1, 1)[0])
    second = content(made.prepare(2, 1)[0])
    made.open_trial(2)
    third = content(made.prepare(1, 1)[0])

    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])
    assert not torch.equal(first[0], third[0])


def test_static_inputs_stay_in_place_and_all_sets_share_them() -> None:
    made = maker(planned("draw", role="static"))

    before = made.prepare(1, 1)[0][0].data_ptr()
    addresses = {arguments[0].data_ptr() for arguments in made.prepare(2, 4)}
    made.open_trial(2)
    after = made.prepare(1, 1)[0][0].data_ptr()

    assert addresses == {before} == {after}


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_drawn_from_the_standard_normal(dtype: str) -> None:
    values = drawn(dtype).double()

    assert values.dtype is torch.float64
    assert abs(values.mean().item()) < 0.03
    assert values.std().item() == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("dtype", LOW_BIT)
def test_eight_bit_floats_are_normal_clamped_to_two(dtype: str) -> None:
    values = drawn(dtype).double()

    assert values.abs().max().item() == 2.0
    assert (values.abs() == 2.0).double().mean().item() == pytest.approx(0.05, abs=0.04)
    assert values.std().item() == pytest.approx(0.95, abs=0.05)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_uniform_in_their_range(dtype: str) -> None:
    values = drawn(dtype).double()

    assert (values.min().item(), values.max().item()) == (-1024.0, 1023.0)
    assert values.std().item() == pytest.approx(2048 / 12**0.5, rel=0.03)


def test_int8_takes_all_its_values() -> None:
    values = drawn("int8")

    assert values.dtype is torch.int8
    assert sorted(set(values.tolist())) == list(range(-128, 128))


def test_booleans_are_fair_coins() -> None:
    values = drawn("bool")

    assert values.dtype is torch.bool
    assert values.double().mean().item() == pytest.approx(0.5, abs=0.02)


def test_probabilities_are_rows_that_add_up_to_one() -> None:
    plan = planned("draw", shape=(8, 100), distribution=Probabilities())

    (probabilities,) = maker(plan).prepare(1, 1)[0]

    assert bool((probabilities > 0).all())
    assert torch.allclose(probabilities.sum(-1), torch.ones(8))


@pytest.mark.parametrize("value", [0.5, 3, True, 0, -2.5])
def test_a_literal_scalar_arrives_as_it_is(value: float) -> None:
    (argument,) = maker(planned("scalar", shape=(), value=value)).prepare(1, 1)[0]

    assert argument == value
    assert type(argument) is type(value)


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float32", float), ("bfloat16", float), ("int32", int), ("bool", bool)]
)
def test_a_random_scalar_is_a_python_number_of_the_trial(dtype: str, kind: type) -> None:
    made = maker(planned("scalar", shape=(), dtype=dtype))

    (first,), (second,) = content(made.prepare(1, 1)[0]), content(made.prepare(2, 1)[0])

    assert type(first) is kind
    assert first == second


def test_random_scalars_are_redrawn_for_the_next_trial() -> None:
    made = maker(planned("scalar", shape=()))

    (first,) = content(made.prepare(1, 1)[0])
    made.open_trial(2)
    (second,) = content(made.prepare(1, 1)[0])

    assert first != second


def test_an_input_from_a_file_is_the_file_in_every_call_and_trial() -> None:
    stored = torch.arange(6.0).reshape(2, 3)
    made = maker(planned("file", shape=(2, 3)), files={"x": stored})

    first = content(made.prepare(1, 1)[0])
    made.prepare(1, 1)[0][0].zero_()
    made.open_trial(2)
    second = content(made.prepare(2, 1)[0])

    assert torch.equal(first[0], stored)
    assert torch.equal(second[0], stored)


def scaled(stored: torch.Tensor, *, calls: int = 100) -> list[torch.Tensor]:
    made = maker(planned("file", shape=tuple(stored.shape), is_scaled=True), files={"x": stored})
    return [content(made.prepare(seed, 1)[0])[0] for seed in range(calls)]


def test_a_scaled_file_keeps_zeros_and_signs_and_never_comes_twice() -> None:
    stored = torch.triu(torch.linspace(-3.0, 5.0, 35).reshape(5, 7))

    calls = scaled(stored)

    assert all(torch.equal(call.sign(), stored.sign()) for call in calls)
    assert all(bool((call.abs() <= stored.abs()).all()) for call in calls)
    assert len({tuple(call.flatten().tolist()) for call in calls}) == 100
    assert all(torch.equal(*pair) for pair in zip(calls, scaled(stored), strict=True))


def test_no_scaled_matrix_is_a_multiple_of_another() -> None:
    one, other = scaled(torch.ones(6, 9), calls=2)

    ratios = one / other

    assert float(ratios.max() / ratios.min()) > 1.2


def test_a_scaled_symmetric_matrix_stays_symmetric() -> None:
    square = torch.randn(6, 6)

    assert all(torch.equal(call, call.T) for call in scaled(square + square.T, calls=10))


def test_a_scaled_positive_definite_matrix_stays_so() -> None:
    half = torch.randn(40, 20, dtype=torch.float64)
    nearly_singular = half @ half.T + 1e-3 * torch.eye(40)

    for call in scaled(nearly_singular, calls=20):
        assert float(torch.linalg.eigvalsh(call)[0]) > 1e-5


@pytest.mark.parametrize("derived", [torch.linalg.cholesky, torch.linalg.inv])
def test_what_was_derived_from_one_scaled_matrix_is_not_that_of_another_times_factors(
    derived: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    half = torch.randn(40, 40, dtype=torch.float64)
    one, other = (derived(each) for each in scaled(half @ half.T + 10 * torch.eye(40), calls=2))
    is_there = torch.tril(torch.ones(40, 40, dtype=torch.bool))

    # What factors of rows and columns made would be a plane over both, in logarithms.
    ratios = torch.where(is_there, (one / other).abs().log(), torch.nan)
    for _ in range(20):
        ratios -= ratios.nanmedian(-1, keepdim=True).values
        ratios -= ratios.nanmedian(-2, keepdim=True).values

    assert float(ratios.abs().nanmedian()) > 0.02


def test_a_scaled_vector_keeps_its_order() -> None:
    sorted_values = torch.arange(1.0, 20.0)

    assert all(bool((call.diff() > 0).all()) for call in scaled(sorted_values, calls=10))


def test_elements_of_a_scaled_vector_that_is_not_sorted_get_a_factor_each() -> None:
    unsorted = torch.tensor([3.0, -1.0, 2.0, 0.0] * 8)

    one, other = scaled(unsorted, calls=2)

    assert torch.equal(one.sign(), unsorted.sign())
    ratios = (one / other)[unsorted != 0]
    assert float(ratios.max() / ratios.min()) > 1.2


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 5), (5, 0), (3, 0, 4), (0, 4, 4)])
def test_a_single_number_and_what_is_empty_are_scaled_too(shape: tuple[int, ...]) -> None:
    (call,) = scaled(torch.ones(shape), calls=1)

    assert call.shape == shape
    assert bool(((call > 0) & (call <= 1)).all())


def test_matrices_of_a_scaled_batch_get_factors_of_their_own() -> None:
    one, other = scaled(torch.ones(2, 3, 6, 6), calls=2)

    ratios = (one / other).flatten(0, 1)
    assert all(torch.equal(each, each.mT) for each in (one, other))
    assert len({float(each[0, 0]) for each in ratios}) == 6


@pytest.mark.parametrize("shape", [(3000, 1500), (700, 80, 80), (2, 1500, 3000)])
def test_large_matrices_are_scaled_in_pieces_by_the_factors_of_a_whole(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = scaled(torch.ones(shape), calls=1)
    monkeypatch.setattr(input_generation, "_SCALED_AT_ONCE", 10_000)

    assert torch.equal(*scaled(torch.ones(shape), calls=1), whole)


def test_many_rows_are_scaled_too() -> None:
    (call,) = scaled(torch.ones(20_000, 2), calls=1)

    assert 0.05 < float(call.min()) < float(call.max()) <= 1.0


@pytest.mark.parametrize("dtype", ["float32", "float8_e4m3fn", "int64", "bool"])
def test_a_permuted_file_keeps_its_rows_in_an_order_of_each_call(dtype: str) -> None:
    stored = (torch.arange(60).reshape(20, 3) % 50).to(torch_dtype(dtype))
    plan = planned("file", shape=(20, 3), dtype=dtype, is_permuted=True)
    made = maker(plan, files={"x": stored})
    (one,), (other,), (again,) = (content(made.prepare(seed, 1)[0]) for seed in (5, 6, 5))

    def rows(tensor: torch.Tensor) -> list[tuple[float, ...]]:
        return [tuple(row) for row in tensor.double().tolist()]

    assert sorted(rows(one)) == sorted(rows(other)) == sorted(rows(stored))
    assert rows(one) == rows(again)
    if dtype != "bool":
        assert rows(one) != rows(other)


def test_probabilities_that_are_permuted_stay_probabilities() -> None:
    stored = torch.softmax(torch.randn(8, 40), dim=-1)
    made = maker(planned("file", shape=(8, 40), is_permuted=True), files={"x": stored})
    (drawn_rows,) = content(made.prepare(5, 1)[0])

    assert torch.equal(drawn_rows.sum(-1).sort().values, stored.sum(-1).sort().values)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0.25, 0), (0.75, 2), (1.25, 2), (1.75, 4), (2.5, 4), (3.5, 6), (5.0, 6),
        (0.3, 1), (1.5, 3), (3.1, 5), (9.0, 7), (-0.6, 9), (-6.0, 15),
    ],
)  # fmt: skip
def test_four_bit_values_are_rounded_to_the_nearest_and_packed(value: float, code: int) -> None:
    pair = input_generation._packed(torch.tensor([value, 1.0]))

    assert pair.view(torch.uint8).item() == code | 2 << 4  # the first of two has the low bits


def test_four_bit_inputs_change_with_every_call() -> None:
    made = maker(planned(shape=(6, 8), dtype="float4_e2m1"))

    first, second = (content(made.prepare(seed, 1)[0])[0] for seed in (1, 2))

    assert first.dtype is torch_dtype("float4_e2m1")
    assert first.shape == (6, 4)
    assert not torch.equal(first.view(torch.uint8), second.view(torch.uint8))


def test_a_four_bit_number_alone_is_a_float() -> None:
    made = maker(planned("scalar", shape=(), dtype="float4_e2m1"))

    assert isinstance(made.prepare(1, 1)[0][0], float)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 5), (4096,)])
def test_what_numpy_writes_is_what_torch_would_write(dtype: str, shape: tuple[int, ...]) -> None:
    dtype_of_torch = torch_dtype(dtype)
    pool = torch.randn(math.prod(shape) + input_generation.WINDOW_SLACK, dtype=dtype_of_torch)
    by_numpy, by_torch = (torch.empty(shape, dtype=dtype_of_torch) for _ in range(2))
    write = input_generation.SmallTexture(pool, by_numpy)
    one, other = random.Random(7), random.Random(7)

    write(one)
    input_generation.fill(Normal(), pool, by_torch, other)

    assert torch.equal(by_numpy, by_torch)
    assert one.getstate() == other.getstate()


@pytest.mark.parametrize(
    ("distribution", "out"),
    [
        (Normal(mean=1.0), torch.empty(8)),
        (Uniform(low=0.0, high=1.0), torch.empty(8)),
        (Normal(), torch.empty(8, dtype=torch.bfloat16)),
        (Normal(), torch.empty(4, 4).t()),
        (Normal(), torch.empty(1 << 15)),
    ],
    ids=["mean", "uniform", "bfloat16", "transposed", "large"],
)
def test_other_inputs_are_left_to_torch(distribution: Distribution, out: torch.Tensor) -> None:
    assert not input_generation.SmallTexture.suits(distribution, out)


def test_small_inputs_follow_the_pool_of_a_new_trial() -> None:
    made = maker(planned(shape=(64,)))
    fresh = maker(planned(shape=(64,)), trial_seed=2)
    made.prepare(1, 2)

    made.open_trial(2)

    assert fingerprint(made.prepare(5, 1)[0]) == fingerprint(fresh.prepare(5, 1)[0])
