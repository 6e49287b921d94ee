from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

import pytest
import torch

from flashinfer_bench.tensors import outputs
from flashinfer_bench.tensors.dtypes import dtype_name, torch_dtype
from flashinfer_bench.tensors.outputs import (
    SharedOutputs,
    are_plain,
    disguise,
    fingerprint,
    mismatch,
    overlap,
    slot_bytes,
    sum_of_mixed_words,
)
from flashinfer_bench.tensors.planned import TensorPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CPU = torch.device("cpu")
FLOATS = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int64", "int32", "int16", "int8"]
EVERY_DTYPE = [*FLOATS, *INTEGERS, "bool"]
GRID = torch.arange(24.0).reshape(4, 6)


def values_of(dtype: str, shape: tuple[int, ...] = (3, 5)) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 3, shape, generator=generator).to(torch_dtype(dtype))


def buffer(dtype: str, shape: tuple[int, ...] = (3, 5)) -> torch.Tensor:
    (made,) = outputs.allocate([TensorPlan("y", shape, dtype)], CPU)
    return made.zero_()


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
@pytest.mark.parametrize("shape", [(3, 5), (), (2, 100_000)])
def test_a_buffer_is_contiguous_aligned_and_watched_on_both_sides(
    dtype: str, shape: tuple[int, ...]
) -> None:
    made = buffer(dtype, shape)
    size = made.numel() * made.element_size()

    assert made.shape == shape
    assert made.is_contiguous()
    assert made.data_ptr() % 64 == 0
    assert made._base is None
    outputs.poison([made])
    assert outputs.overrun(made) is None
    ctypes.memset(made.data_ptr() - 1, 0, 1)
    assert outputs.overrun(made) == "before the beginning"
    ctypes.memset(made.data_ptr() + size, 0, 1)
    assert outputs.overrun(made) == "past the end"


def test_nothing_was_written_beside_an_empty_buffer() -> None:
    assert outputs.overrun(buffer("float32", (0,))) is None


def test_a_row_too_many_stays_in_the_memory_of_its_buffer() -> None:
    made = buffer("float32", (2, 5000))

    behind = made.untyped_storage().nbytes() - 512 - made.numel() * 4

    assert behind == 5000 * 4


def test_what_took_the_place_of_a_buffers_memory_is_not_looked_at() -> None:
    made = buffer("float32")
    made.set_(torch.zeros(15).untyped_storage(), 0, (3, 5), (5, 1))

    assert outputs.overrun(made) is None


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(3, 5), (), (0,)])
def test_poisoned_floats_are_nan(dtype: str, shape: tuple[int, ...]) -> None:
    made = buffer(dtype, shape)

    outputs.poison([made])

    assert bool(made.double().isnan().all())


@pytest.mark.parametrize("dtype", INTEGERS)
def test_poisoned_integers_are_the_smallest(dtype: str) -> None:
    made = buffer(dtype)

    outputs.poison([made])

    assert bool((made == torch.iinfo(made.dtype).min).all())


def test_poisoned_booleans_are_true() -> None:
    made = buffer("bool")

    outputs.poison([made])

    assert bool(made.all())


def test_all_outputs_are_poisoned() -> None:
    made = [buffer("float32"), buffer("int32")]

    outputs.poison(made)

    assert [bool((each != 0).all()) for each in made] == [True, True]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (GRID, GRID, True),
        (GRID, GRID.clone(), False),
        (GRID, GRID.view(6, 4), True),
        (GRID, GRID.t(), True),
        (GRID[:2], GRID[2:], False),
        (GRID[:3], GRID[2:], True),
        (GRID[:, :3], GRID[:, 3:], False),
        (GRID[:, :4], GRID[:, 3:], True),
        (GRID[:, 0::2], GRID[:, 1::2], False),
        (GRID[:, 0::2], GRID[:, 2::3], True),
        (GRID[0, 0], GRID[0, 0], True),
        (GRID[0, 0], GRID[0, 1], False),
        (GRID[1, 1], GRID, True),
        (GRID[:0], GRID, False),
        (GRID[0].expand(4, 6), GRID[0], True),
        (GRID[0, 0].expand(9), GRID[0, 1].expand(9), False),
        (GRID.view(-1).unfold(0, 3, 1), GRID[3], True),
        (GRID.view(torch.int32)[:, :3], GRID[:, 2:], True),
        (GRID.view(torch.int32)[:, :3], GRID[:, 3:], False),
        (GRID.view(torch.uint8)[0, 3:4], GRID[0, 0], True),
        (GRID.view(torch.uint8)[0, 4:5], GRID[0, 0], False),
        (GRID.view(torch.float16)[:, 0::2], GRID.view(torch.float16)[:, 1::2], False),
    ],
    ids=[
        "the same", "a copy", "a view", "transposed", "halves", "halves and a row",
        "columns", "columns and one", "interleaved", "interleaved but one", "one element",
        "neighbours", "an element of it", "empty", "expanded", "expanded neighbours",
        "sliding windows", "another dtype", "another dtype beside", "last byte", "next byte",
        "interleaved bytes",
    ],
)  # fmt: skip
def test_tensors_overlap_exactly_when_they_share_a_byte(
    first: torch.Tensor, second: torch.Tensor, expected: bool
) -> None:
    assert overlap(first, second) is expected
    assert overlap(second, first) is expected


def test_chunks_of_one_result_do_not_overlap() -> None:
    first, second = torch.arange(24.0).reshape(4, 6).chunk(2, dim=-1)

    assert not overlap(first, second)


@pytest.fixture
def memory() -> Iterator[int]:
    descriptor = os.memfd_create("outputs")
    os.ftruncate(descriptor, 1 << 16)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4), (1,)])
def test_outputs_arrive_at_the_other_mapping_bit_by_bit(
    memory: int, dtype: str, shape: tuple[int, ...]
) -> None:
    plans = [TensorPlan("a", shape, dtype), TensorPlan("b", (2,), "float32")]
    sent = [values_of(dtype, shape), torch.tensor([1.5, float("nan")])]
    theirs, ours = SharedOutputs(memory, plans, 2), SharedOutputs(memory, plans, 2)

    theirs.write([[], sent])
    received = ours.read(1, CPU)

    assert [each.dtype for each in received] == [each.dtype for each in sent]
    assert [each.shape for each in received] == [each.shape for each in sent]
    assert fingerprint(received) == fingerprint(sent)


@pytest.mark.parametrize(
    "strided",
    [GRID.t(), GRID[:, ::2], GRID[::2], GRID[0].expand(3, 6)],
    ids=["transposed", "every other column", "every other row", "expanded"],
)
def test_outputs_arrive_whatever_their_strides(memory: int, strided: torch.Tensor) -> None:
    shared = SharedOutputs(memory, [TensorPlan("y", tuple(strided.shape), "float32")], 1)

    shared.write([[strided]])
    (received,) = shared.read(0, CPU)

    assert torch.equal(received, strided)
    assert received.is_contiguous()


def test_an_output_that_is_missing_leaves_its_place_alone(memory: int) -> None:
    plans = [TensorPlan("a", (2,), "float32"), TensorPlan("b", (2,), "float32")]
    shared = SharedOutputs(memory, plans, 1)
    shared.write([[torch.ones(2), torch.ones(2)]])

    shared.write([[torch.zeros(2), None]])

    assert [each.tolist() for each in shared.read(0, CPU)] == [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    "output",
    [
        torch.zeros(3),
        torch.zeros(2, dtype=torch.float64),
        torch.zeros(2, device="meta"),
        torch.nn.Parameter(torch.zeros(2)),
        None,
    ],
    ids=["shape", "dtype", "device", "parameter", "none"],
)
def test_only_plain_tensors_as_declared_need_no_closer_look(output: object) -> None:
    declared = ([torch.Size((2,))], [torch.float32], CPU)

    assert are_plain([torch.zeros(2)], *declared)
    assert not are_plain([output], *declared)
    assert not are_plain([], *declared)


def test_a_tensor_with_an_attribute_is_looked_at_closely() -> None:
    output = torch.zeros(2)
    output.note = 1  # type: ignore[attr-defined]

    assert not are_plain([output], [torch.Size((2,))], [torch.float32], CPU)


def test_slots_do_not_touch_each_other(memory: int) -> None:
    plans = [TensorPlan("a", (7,), "int8"), TensorPlan("b", (3,), "int64")]
    shared = SharedOutputs(memory, plans, 3)

    shared.write(
        [torch.full((7,), slot, dtype=torch.int8), torch.full((3,), slot)] for slot in range(3)
    )
    found = [[each.tolist() for each in shared.read(slot, CPU)] for slot in range(3)]

    assert found == [[[slot] * 7, [slot] * 3] for slot in range(3)]


def test_what_was_read_does_not_change_with_what_is_written_next(memory: int) -> None:
    shared = SharedOutputs(memory, [TensorPlan("y", (2,), "float32")], 1)
    shared.write([[torch.ones(2)]])

    (received,) = shared.read(0, CPU)
    shared.write([[torch.zeros(2)]])

    assert received.tolist() == [1.0, 1.0]


def test_committing_keeps_no_autograd_graph(memory: int) -> None:
    shared = SharedOutputs(memory, [TensorPlan("y", (2,), "float32")], 1)

    shared.write([[torch.ones(2, requires_grad=True) * 2]])
    (received,) = shared.read(0, CPU)

    assert not received.requires_grad


def test_every_output_of_a_slot_begins_on_a_cache_line() -> None:
    shapes = {"a": (1,), "b": (0,), "c": (17,)}
    plans = [TensorPlan(name, shape, "float32") for name, shape in shapes.items()]

    assert slot_bytes(plans) == 64 + 0 + 128


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
@pytest.mark.parametrize("byte", [0, 7, -1])
def test_a_fingerprint_changes_with_any_byte(dtype: str, byte: int) -> None:
    values = values_of(dtype)
    before = fingerprint([torch.ones(3), values])

    values.view(torch.uint8).view(-1)[byte] ^= 1

    assert fingerprint([torch.ones(3), values]) != before


def test_a_fingerprint_sees_the_difference_between_the_zeros() -> None:
    assert fingerprint([torch.tensor([0.0])]) != fingerprint([torch.tensor([-0.0])])


def test_a_fingerprint_is_of_content_and_not_of_layout() -> None:
    assert fingerprint([GRID.t()]) == fingerprint([GRID.t().contiguous()])


@pytest.mark.parametrize("values", [[], [3, 0.5], [torch.empty(0)], [torch.tensor(1.0)]])
def test_a_fingerprint_takes_scalars_and_empty_tensors(values: list[object]) -> None:
    assert len(fingerprint(values)) == 16


PLAN = TensorPlan("y", (2, 3), "float32")


class Subclass(torch.Tensor):
    """A tensor that could compute when it is looked at."""


@pytest.mark.parametrize(
    ("output", "code", "words"),
    [
        (None, "not_a_tensor", "output 'y' is None, not a tensor: return a torch.Tensor"),
        ([1.0], "not_a_tensor", "output 'y' is of type list, not a tensor: return a torch.Tensor"),
        (torch.zeros(2, 3).as_subclass(Subclass), "subclass", "Subclass"),
        (torch.zeros(3, 2), "shape", "has shape (3, 2), not (2, 3)"),
        (torch.zeros(6), "shape", "has shape (6,), not (2, 3)"),
        (torch.zeros(2, 3).half(), "dtype", "is float16, not float32"),
        (torch.zeros(2, 3).double(), "dtype", "is float64, not float32"),
        (torch.zeros(2, 3, device="meta"), "device", "is on meta, not on cpu"),
    ],
)
def test_an_output_is_refused_by_its_outside(output: object, code: str, words: str) -> None:
    found_code, sentence = mismatch(output, PLAN, CPU)

    assert found_code == code
    assert words in sentence


class Trap:
    """Fails the test when anything asks it something."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("its __eq__ ran")

    def __hash__(self) -> int:
        return hash("detach")


class TrapName(str):
    """A name that would answer for itself."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("its __eq__ ran")

    def __hash__(self) -> int:
        return hash("detach")


class TrapDict(dict[str, object]):
    """A mapping that shows nothing of what is in it."""

    def __len__(self) -> int:
        raise AssertionError("its __len__ ran")

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("its __iter__ ran")

    def items(self) -> Any:
        raise AssertionError("its items() ran")


class Property:
    """A descriptor: on an instance nobody asks it."""

    def __get__(self, instance: object, owner: object = None) -> object:
        raise AssertionError("its __get__ ran")


def with_attributes(attributes: dict[Any, object]) -> torch.Tensor:
    output = torch.zeros(2, 3)
    output.__dict__ = attributes
    return output


@pytest.mark.parametrize(
    "name",
    ["shape", "data_ptr", "copy_", "detach", "T", "requires_grad", "__class__", "__dict__"],
)
def test_an_attribute_under_a_name_of_a_tensors_is_refused(name: str) -> None:
    output = with_attributes({"note": 1, name: 2})

    code, words = mismatch(output, PLAN, CPU)

    assert code == "subclass"
    assert repr(name) in words


@pytest.mark.parametrize(
    "name", ["__array_interface__", "__a_protocol_of_tomorrow__", "__torch_function__"]
)
def test_an_attribute_that_a_protocol_asks_for_is_refused(name: str) -> None:
    assert name in disguise(with_attributes({name: 2}))


@pytest.mark.parametrize("name", ["helper", "_dynamo_propagated_dynamic_indices", "cpu"])
@pytest.mark.parametrize(
    "value",
    [print, lambda: None, Trap, torch.nn.ReLU()],
    ids=["builtin", "lambda", "class", "module"],
)
def test_an_attribute_that_can_be_called_is_refused(name: str, value: object) -> None:
    assert mismatch(with_attributes({name: value}), PLAN, CPU)[0] == "subclass"


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({Trap(): 1}, "name is a Trap"),
        ({TrapName("detach"): 1}, "name is a TrapName"),
        ({7: 1}, "name is a int"),
        (TrapDict(note=1), "kept in a TrapDict"),
        (TrapDict(), "kept in a TrapDict"),
    ],
    ids=["key", "string", "number", "mapping", "empty mapping"],
)
def test_attributes_that_could_run_code_are_refused_without_running_it(
    attributes: dict[Any, object], words: str
) -> None:
    assert words in disguise(with_attributes(attributes))


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"_dynamo_propagated_dynamic_indices": {0}},
        {"tag": "mine", "scale": 0.5, "peer": torch.ones(1)},
        {"later": Property()},
        {"later": property(lambda _: 1)},
        {"trap": Trap()},
        {"my_shape": (1, 2), "shape_": 3},
    ],
    ids=lambda attributes: ", ".join(attributes) or "none",
)
def test_data_under_names_of_its_own_is_accepted(attributes: dict[Any, object]) -> None:
    assert mismatch(with_attributes(attributes), PLAN, CPU) is None


def test_outputs_of_a_compiled_function_on_a_second_size_are_accepted() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="aot_eager")
    compiled(torch.zeros(4, 3))

    output = compiled(torch.zeros(2, 3))

    assert output.__dict__, "torch leaves nothing behind any more: this test can go"
    assert mismatch(output, PLAN, CPU) is None


@pytest.mark.parametrize("make", [torch.nn.Parameter, torch.nn.Buffer])
def test_what_a_module_holds_is_accepted(make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert mismatch(make(torch.zeros(2, 3)), PLAN, CPU) is None


@pytest.mark.parametrize("name", ["detach", "requires_grad", "__torch_function__", "anything"])
def test_a_parameter_whose_class_was_changed_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(torch.nn.Parameter, name, lambda *_: None, raising=False)

    assert mismatch(torch.zeros(2, 3).as_subclass(torch.nn.Parameter), PLAN, CPU)[0] == "subclass"


class SubParameter(torch.nn.Parameter):
    """Not the class that torch made."""


def test_a_subclass_of_a_parameter_is_refused() -> None:
    assert disguise(SubParameter(torch.zeros(2, 3))) == "SubParameter"


@pytest.mark.parametrize(
    "output",
    [torch.zeros(2, 3), torch.zeros(3, 2).t(), torch.zeros(1).expand(2, 3)],
    ids=["plain", "transposed", "expanded"],
)
def test_an_output_of_any_strides_is_accepted(output: torch.Tensor) -> None:
    assert mismatch(output, PLAN, CPU) is None


@pytest.mark.parametrize("dtype", [*EVERY_DTYPE, "float4_e2m1"])
def test_a_dtype_keeps_its_name(dtype: str) -> None:
    assert dtype_name(torch_dtype(dtype)) == dtype


def test_a_dtype_torch_does_not_have_is_named() -> None:
    with pytest.raises(ValueError, match="no dtype 'float7'"):
        torch_dtype("float7")


def test_memory_wrapped_twice_overlaps() -> None:
    tensor = torch.zeros(8)
    wrapped = torch.from_numpy(tensor.numpy()[1:])

    assert outputs.overlap(wrapped, tensor)


def test_a_tensor_overlaps_itself() -> None:
    tensor = torch.zeros(8)

    assert outputs.overlap(tensor, tensor)


def test_the_sum_a_gpu_is_asked_for_sees_every_byte_and_its_place() -> None:
    raw = torch.randint(0, 256, (1003,), dtype=torch.uint8)
    changed = [raw.clone() for _ in range(len(raw))]
    for place, each in enumerate(changed):
        each[place] += 1
    swapped = torch.cat([raw[8:16], raw[:8], raw[16:]])

    sums = {sum_of_mixed_words(each) for each in (raw, swapped, *changed)}

    assert len(sums) == len(raw) + 2


def test_the_sum_is_that_of_splitmix_words() -> None:
    raw = torch.zeros(8, dtype=torch.uint8)

    assert sum_of_mixed_words(raw) == 0
    assert sum_of_mixed_words(torch.zeros(16, dtype=torch.uint8)) == mixed_in_python(1)


def mixed_in_python(place: int) -> int:
    """The same arithmetic with Python's integers, signed as a GPU's are."""

    def signed(value: int) -> int:
        return (value + 2**63) % 2**64 - 2**63

    word = signed(place * 0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = signed((word ^ (word >> shift)) * factor)
    return (word ^ (word >> 31)) % 2**64


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_elements_that_nobody_wrote_are_known_from_nan_that_was_written(dtype: str) -> None:
    made = torch.empty(4, dtype=getattr(torch, dtype))
    outputs.poison([made])
    made[1], made[2] = 1.0, float("nan")
    made[3] = torch.tensor(0.0) / torch.tensor(0.0)

    left_out = outputs.unwritten(made)

    assert left_out is not None
    assert left_out.tolist() == [True, False, False, False]


def test_integers_tell_nothing_of_what_was_written() -> None:
    assert outputs.unwritten(torch.zeros(2, dtype=torch.int32)) is None


@pytest.mark.parametrize("count", [32, 33, 39])
def test_the_sum_of_words_does_not_hang_on_where_they_lie(count: int) -> None:
    values = torch.arange(count, dtype=torch.uint8)
    elsewhere = torch.cat((torch.zeros(3, dtype=torch.uint8), values))[3:]

    assert sum_of_mixed_words(elsewhere) == sum_of_mixed_words(values)
