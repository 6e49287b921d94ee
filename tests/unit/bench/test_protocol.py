"""What a candidate may say at all: whole numbers within bounds, and nothing that a trace takes from it unseen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect

from flashinfer_bench.bench.channel import Channel, ChannelGarbled, pair
from flashinfer_bench.bench.protocol import (
    Build,
    Built,
    Committed,
    FromCandidate,
    Inspected,
    Kept,
    QuickChecked,
    Repeated,
    Returned,
)

HONEST: tuple[msgspec.Struct, ...] = (
    Returned(3, 1000, 1, 900, 2),
    Committed(3, None, (1,)),
    Inspected(3, None, shares_buffers=False, strided_elements=8),
    Kept(3, b"print", 4096),
    Repeated(3, 1000, 4),
)
FIGURES = (
    (Returned, "id"),
    (Returned, "elapsed_ns"),
    (Returned, "count"),
    (Returned, "host_ns"),
    (Returned, "launches"),
    (Repeated, "elapsed_ns"),
    (Repeated, "count"),
    (Inspected, "strided_elements"),
    (Kept, "peak_memory_bytes"),
)
CANNOT_BE = (-1, math.nan, math.inf, -math.inf, 0.5, 1 << 62, (1 << 64) - 1, True, "7")


def numbers_in(found: inspect.Type) -> Iterator[inspect.Type]:
    """Every number in a type, however deep."""
    match found:
        case inspect.IntType() | inspect.FloatType():
            yield found
        case inspect.StructType(fields=fields):
            for each in fields:
                yield from numbers_in(each.type)
        case inspect.UnionType(types=types):
            for each in types:
                yield from numbers_in(each)
        case inspect.VarTupleType(item_type=item):
            yield from numbers_in(item)


@pytest.mark.parametrize("message", get_args(FromCandidate), ids=lambda each: each.__name__)
def test_every_number_of_a_candidate_is_whole_and_has_both_bounds(message: type) -> None:
    numbers = list(numbers_in(inspect.type_info(message)))

    assert numbers
    for number in numbers:
        assert isinstance(number, inspect.IntType)
        assert number.ge == 0
        assert number.le is not None


@pytest.mark.parametrize("value", CANNOT_BE, ids=repr)
@pytest.mark.parametrize(("message", "field"), FIGURES)
def test_a_figure_that_cannot_be_is_no_message(message: type, field: str, value: Any) -> None:
    (honest,) = (each for each in HONEST if type(each) is message)
    said = msgspec.to_builtins(honest, builtin_types=(bytes,)) | {field: value}
    ours, theirs = pair()
    channel: Channel[Any] = Channel(ours, FromCandidate)
    body = msgspec.msgpack.encode(said)
    theirs.sendall(len(body).to_bytes(4, "little") + body)

    with pytest.raises(ChannelGarbled, match=rf"`\$\.{field}`"):
        channel.receive()

    channel.close()
    theirs.close()


def test_a_missing_output_has_a_number() -> None:
    said = msgspec.to_builtins(HONEST[1]) | {"missing": [-1]}

    with pytest.raises(msgspec.ValidationError, match=r"\$\.missing\[0\]"):
        msgspec.msgpack.decode(msgspec.msgpack.encode(said), type=FromCandidate)


def test_honest_figures_arrive() -> None:
    for message in (*HONEST, Built(1), QuickChecked(2, is_clear=True)):
        assert (
            msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=FromCandidate) == message
        )


def test_what_was_built_says_nothing_about_the_clock() -> None:
    assert Built.__struct_fields__ == ("id",)
    assert {"clock", "cache"} <= set(Build.__struct_fields__)
