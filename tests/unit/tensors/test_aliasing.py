from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from flashinfer_bench.tensors.aliasing import Aliases, aliases, are_anonymous, is_mapped_twice
from flashinfer_bench.tensors.outputs import span
from flashinfer_bench.tensors.planned import TensorPlan

Y = TensorPlan("y", (4,), "float32")
Z = TensorPlan("z", (4,), "float32")
MEMORY = torch.zeros(64)


def block(number: int) -> torch.Tensor:
    """Four floats of their own in memory that all blocks share."""
    return MEMORY[4 * number : 4 * number + 4]


PAGE = mmap.PAGESIZE


def mapped(descriptor: int, pages: int, *, offset: int = 0) -> torch.Tensor:
    memory = mmap.mmap(descriptor, pages * PAGE, offset=offset * PAGE)
    return torch.frombuffer(memory, dtype=torch.float32)


@pytest.fixture
def descriptor() -> Iterator[int]:
    descriptor = os.memfd_create("two")
    os.ftruncate(descriptor, 4 * PAGE)
    yield descriptor
    os.close(descriptor)


def test_memory_with_two_addresses_is_found_where_both_hold_the_same_pages(descriptor: int) -> None:
    one = mapped(descriptor, 2)
    assert not is_mapped_twice([one])

    beside = mapped(descriptor, 2, offset=2)
    assert not is_mapped_twice([one, beside, 0.5])

    both = mapped(descriptor, 2, offset=1)
    both[-1] = 7.0
    assert beside[PAGE // 4 - 1] == 7.0
    assert is_mapped_twice([one])
    assert is_mapped_twice([beside])
    assert not is_mapped_twice([one[: PAGE // 4], torch.ones(4)])


def test_pages_put_under_a_tensor_are_found(descriptor: int) -> None:
    x = torch.zeros(1 << 20)
    place = -(-x.data_ptr() // PAGE) * PAGE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    before = x.data_ptr()

    fixed_and_shared = 0x10 | mmap.MAP_SHARED
    both = mmap.PROT_READ | mmap.PROT_WRITE
    assert libc.mmap(place, 4 * PAGE, both, fixed_and_shared, descriptor, 0) == place
    other = mapped(descriptor, 4)
    x[PAGE // 4] = 3.0

    assert x.data_ptr() == before
    assert 3.0 in other
    assert is_mapped_twice([x])
    del other
    assert not is_mapped_twice([x])


def test_memory_of_ones_own_is_told_from_that_of_a_file(descriptor: int, tmp_path: Path) -> None:
    own, shared = torch.ones(3 * PAGE), mapped(descriptor, 2)
    shared.fill_(1.0)
    copied = torch.frombuffer(
        mmap.mmap(descriptor, 2 * PAGE, flags=mmap.MAP_PRIVATE), dtype=torch.float32
    )
    untouched = torch.frombuffer(
        mmap.mmap(-1, 2 * PAGE, flags=mmap.MAP_PRIVATE), dtype=torch.float32
    )

    assert are_anonymous([span(own), range(0)])
    assert not are_anonymous([span(own), span(shared)])
    assert not are_anonymous([span(copied)])
    assert not are_anonymous([span(untouched)])  # nobody knows what will be there
    copied.fill_(2.0)
    assert are_anonymous([span(copied)])
    assert not are_anonymous([span(own)], pages=tmp_path / "none")
    (tmp_path / "short").write_bytes(b"")
    assert not are_anonymous([span(own)], pages=tmp_path / "short")


def test_memory_of_a_device_is_none_of_it(tmp_path: Path) -> None:
    x = torch.zeros(4)
    page = x.data_ptr() // PAGE * PAGE
    line = f"{page:x}-{page + PAGE:x} rw-s 00000000 00:05 123        {{}}\n"
    elsewhere = f"{PAGE:x}-{2 * PAGE:x} rw-s 00000000 00:05 123        {{}}\n"
    maps = tmp_path / "maps"

    for path, expected in (("/dev/nvidia0", False), ("/dev/shm/x", True), ("/dev/zero", True)):
        maps.write_text(line.format(path) + elsewhere.format(path))
        assert is_mapped_twice([x], maps=maps, pages=tmp_path / "none") is expected


def test_outputs_in_memory_of_their_own_are_fine() -> None:
    outputs = [[block(0), block(1)], [block(2), block(3)]]
    inputs = [[block(4), 0.5], [block(5), 0.5]]

    assert aliases(outputs, inputs, [Y, Z]) == Aliases()


X = torch.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    "output",
    [
        X[1],
        X.flatten()[3:7],
        X[:, 1],
        X[0, 0].expand(4),
        X.view(torch.int32)[2].view(torch.float32),
        X.t()[2],
        X.as_strided((4,), (2,), 1),
    ],
    ids=["row", "offset", "column", "expanded", "reinterpreted", "transposed", "strided"],
)
def test_a_view_of_an_input_is_found_whatever_its_layout(output: torch.Tensor) -> None:
    found = aliases([[output]], [[torch.zeros(4), X]], [Y])

    assert found.fault == "output 'y' shares memory with an input"


def test_an_output_beside_an_input_in_one_block_of_memory_is_fine() -> None:
    evens, odds = MEMORY[0:8:2], MEMORY[1:8:2]

    assert aliases([[evens]], [[odds]], [Y]).fault is None
    assert aliases([[evens]], [[MEMORY[2:3]]], [Y]).fault is not None


def test_two_outputs_of_a_call_in_the_same_memory_are_found() -> None:
    found = aliases([[block(0), MEMORY[2:6]]], [[block(9)]], [Y, Z])

    assert found.fault in (
        "output 'y' shares memory with output 'z'",
        "output 'z' shares memory with output 'y'",
    )


def test_the_same_tensor_twice_is_found() -> None:
    assert aliases([[block(0), block(0)]], [], [Y, Z]).fault is not None


def test_an_expanded_output_by_itself_is_fine() -> None:
    assert aliases([[torch.ones(1).expand(4)]], [[block(0)]], [Y]).fault is None


def test_an_input_of_an_earlier_call_is_found() -> None:
    found = aliases([[block(0)], [block(3)]], [[block(3)], [block(4)]], [Y])

    assert found.fault == "output 'y' shares memory with an input of another call"


def test_an_input_that_no_call_of_the_sample_was_given_is_found() -> None:
    found = aliases([[block(7)]], [[block(3)], [block(4)], [block(7)]], [Y])

    assert found.fault == "output 'y' shares memory with an input of another call"


def test_outputs_of_different_calls_in_the_same_memory_are_no_fault() -> None:
    found = aliases([[block(0)]] * 64, [[block(3)], [block(4)]], [Y])

    assert found == Aliases(None, are_shared=True)


def test_slices_of_one_workspace_are_not_shared() -> None:
    assert aliases([[block(number)] for number in range(8)], [], [Y]) == Aliases()


def test_an_input_that_all_calls_share_is_looked_at_once_and_found() -> None:
    weight = torch.zeros(4)

    assert aliases([[block(0)]], [[weight], [weight]], [Y]) == Aliases()
    assert aliases([[weight]], [[weight], [weight]], [Y]).fault is not None


def test_missing_empty_and_superfluous_outputs_do_no_harm() -> None:
    outputs = [[block(0), None, torch.empty(0), block(1)]]

    assert aliases(outputs, [[torch.empty(0), 3]], [Y, Z]) == Aliases()


def test_a_fault_is_found_among_many_shared_outputs() -> None:
    outputs = [[block(0)]] * 32 + [[block(5)]]

    assert aliases(outputs, [[block(5)]], [Y]).fault is not None
