from __future__ import annotations

from flashinfer_bench.decompose.axes import Probed
from flashinfer_bench.decompose.forms import form
from flashinfer_bench.decompose.identity import identity, unique_names
from flashinfer_bench.decompose.ir import Ref
from tests.unit.decompose.traces import Building


def _identity(b: Building, out: Ref, first: int = 0) -> str:
    trace = b.trace(out)
    ops = [op.id for op in trace.ops if op.id >= first]
    return identity(trace, form(Probed(trace), ops))


def _linear(rows: int = 4, *, width: int = 8, before: int = 0, dtype: str = "float32") -> str:
    b = Building()
    x = b.input(rows, 6, dtype=dtype)
    for _ in range(before):
        x = b.op("relu", x)
    return _identity(b, b.linear(x, width), first=before)


def test_the_same_work_elsewhere_in_a_model_is_the_same_piece() -> None:
    b = Building()
    trace = b.trace(b.op("relu", b.op("relu", b.input(4, 6))))

    hashes = {identity(trace, form(Probed(trace), [op])) for op in (0, 1)}

    assert len(hashes) == 1


def test_sizes_and_dtypes_are_part_of_a_piece() -> None:
    hashes = {_linear(), _linear(rows=5), _linear(width=9), _linear(dtype="bfloat16")}

    assert len(hashes) == 4


def test_attributes_are_part_of_a_piece() -> None:
    def softmax(dim: int) -> str:
        b = Building()
        return _identity(b, b.op("softmax", b.input(4, 6), dim))

    assert softmax(0) != softmax(1)


def test_a_value_that_is_read_twice_is_another_piece_than_two_values() -> None:
    b, c = Building(), Building()
    x = b.input(4)

    square = _identity(b, b.op("mul", x, x))
    product = _identity(c, c.op("mul", c.input(4), c.input(4)))

    assert square != product


def test_only_names_that_several_pieces_want_carry_a_hash() -> None:
    names = unique_names({"aaaaaa11": "add", "bbbbbb22": "add", "cccccc33": "mul"})

    assert names == {"aaaaaa11": "add_aaaaaa", "bbbbbb22": "add_bbbbbb", "cccccc33": "mul"}
