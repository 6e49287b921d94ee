from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.bench.channel import (
    Channel,
    ChannelClosed,
    ChannelGarbled,
    ChannelTimeout,
    pair,
)
from flashinfer_bench.bench.outcomes import Misshapen
from flashinfer_bench.bench.protocol import (
    Built,
    Committed,
    Exited,
    FromCandidate,
    FromJudge,
    FromServer,
    Go,
    JobEnded,
    OutputFault,
    Raised,
    Spawn,
    Spawned,
    ToServer,
)
from flashinfer_bench.bench.sandbox.policy import SandboxPolicy
from flashinfer_bench.data.distributions import (
    Boolean,
    Distribution,
    IndexPointers,
    Integers,
    Normal,
    PageTable,
    Permutation,
    Probabilities,
    Uniform,
)
from flashinfer_bench.tensors.planned import InputPlan, TensorPlan, written
from tests.unit.bench.values import OPENED, STEADY, passed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMMITTED = Committed(7, OutputFault("shape", "no"))
SOON_S = 5.0


def frame(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


def soon() -> float:
    return time.monotonic() + SOON_S


@pytest.fixture
def ends() -> Iterator[Callable[[Any], tuple[socket.socket, Channel[Any]]]]:
    """Makes a bare socket and, at its other end, a channel that receives the given types."""
    opened: list[Any] = []

    def connect(receives: Any) -> tuple[socket.socket, Channel[Any]]:
        bare, sock = pair()
        channel: Channel[Any] = Channel(sock, receives)
        opened.extend([bare, channel])
        return bare, channel

    yield connect
    for end in opened:
        end.close()


@pytest.mark.parametrize(
    ("message", "receives"),
    [
        (Spawn(1, "judge", is_trusted=True, policy=SandboxPolicy("process", "cpu")), ToServer),
        (Exited(2, 44, 9), FromServer),
        (Built(2), FromCandidate),
        (COMMITTED, FromCandidate),
        (OPENED, FromJudge),
        (JobEnded(3, passed()), FromJudge),
        (JobEnded(3, Misshapen("shape", "no", participant="candidate-1")), FromJudge),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_message_arrives_as_it_was_sent(ends, message: msgspec.Struct, receives: Any) -> None:
    bare, channel = ends(receives)

    Channel(bare, Any).send(message)

    assert channel.receive(soon()) == message


@pytest.mark.parametrize(
    "distribution",
    [
        Normal(mean=1.5),
        Uniform(low=-1.0, high=2.0),
        Integers(low=-3, high=7),
        Probabilities(temperature=0.5),
        Permutation(),
        IndexPointers(total=9, longest=4),
        PageTable(pages=8, unique=False),
        Boolean(rate=0.25),
    ],
    ids=lambda each: each.type,
)
def test_how_an_input_is_made_arrives_as_the_type_that_declares_it(
    ends, distribution: Distribution
) -> None:
    plan = InputPlan(TensorPlan("x", (4,), "int32"), "window", distribution=distribution)
    bare, channel = ends(InputPlan)

    Channel(bare, Any).send(plan)

    assert channel.receive(soon()) == plan


def test_a_distribution_that_is_none_is_garbled(ends) -> None:
    plan = InputPlan(TensorPlan("x", (4,), "int32"), "window", distribution=Normal())
    sent = msgspec.to_builtins(plan, enc_hook=written)
    bare, channel = ends(InputPlan)

    bare.sendall(frame(msgspec.msgpack.encode({**sent, "distribution": {"type": "odd"}})))

    with pytest.raises(ChannelGarbled):
        channel.receive(soon())


def test_messages_arrive_in_order(ends) -> None:
    bare, channel = ends(FromServer)
    messages = [Spawned(number, number) for number in range(100)]

    for message in messages:
        Channel(bare, Any).send(message)

    assert [channel.receive(soon()) for _ in messages] == messages


@STEADY
@given(cuts=st.lists(st.integers(min_value=0, max_value=200), max_size=8))
def test_messages_arrive_however_the_stream_is_cut(cuts: list[int]) -> None:
    messages = [Spawned(1, 10), Exited(2, 10, 9), Spawned(3, 11)]
    stream = b"".join(frame(msgspec.msgpack.encode(message)) for message in messages)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    bare, sock = pair()
    channel: Channel[Any] = Channel(sock, FromServer)
    found = []

    for start, stop in itertools.pairwise(places):
        bare.sendall(stream[start:stop])
        channel.fill()
        found.extend(iter(channel.pending, None))
    bare.close()
    channel.close()

    assert found == messages


def test_a_message_larger_than_any_socket_buffer_arrives(ends) -> None:
    bare, channel = ends(FromCandidate)
    message = Raised(1, "x" * (5 << 20))
    sender = threading.Thread(target=Channel(bare, Any).send, args=(message,))

    sender.start()
    received = channel.receive(soon())
    sender.join()

    assert received == message


def test_a_frame_too_long_to_be_ours_is_garbled_before_it_arrives(ends) -> None:
    bare, channel = ends(FromServer)

    bare.sendall(struct.pack("<I", 0xFFFF_FFFF))

    with pytest.raises(ChannelGarbled, match="4294967295 bytes"):
        channel.receive(soon())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"garbage",
        msgspec.msgpack.encode(Go(1)),
        msgspec.msgpack.encode({"type": "Spawned", "id": 1}),
        msgspec.msgpack.encode({"type": "Spawned", "id": "one", "pid": 2}),
        msgspec.msgpack.encode(Spawned(1, 2)) + b"\x00",
        b"\x82\xa4type\xa7Spawned\xa2id\xa1\xff",
        b"\x82\xa4type\xa7Spawned\xa1x" + b"\x91" * 100_000,
    ],
    ids=["empty", "noise", "other type", "lacking", "mistyped", "surplus", "no utf-8", "deep"],
)
def test_what_is_no_expected_message_is_garbled(ends, body: bytes) -> None:
    bare, channel = ends(FromServer)

    bare.sendall(frame(body))

    with pytest.raises(ChannelGarbled):
        channel.receive(soon())


def exhaust(channel: Channel[Any]) -> None:
    """Receive until that ends."""
    while True:
        channel.receive(soon())


@STEADY
@given(noise=st.binary(max_size=300))
def test_random_bytes_never_do_worse_than_garble_or_close(noise: bytes) -> None:
    bare, sock = pair()
    channel: Channel[Any] = Channel(sock, FromCandidate)
    bare.sendall(noise)
    bare.close()

    with pytest.raises((ChannelGarbled, ChannelClosed)):
        exhaust(channel)
    channel.close()


@STEADY
@given(body=st.binary(max_size=300))
def test_a_random_frame_never_does_worse_than_garble_or_close(body: bytes) -> None:
    bare, sock = pair()
    channel: Channel[Any] = Channel(sock, FromCandidate)
    bare.sendall(frame(body))
    bare.close()

    with pytest.raises((ChannelGarbled, ChannelClosed)):
        exhaust(channel)
    channel.close()


@STEADY
@given(place=st.integers(min_value=0, max_value=10_000), value=st.integers(0, 255))
def test_a_real_message_with_one_wrong_byte_never_does_worse(place: int, value: int) -> None:
    body = bytearray(msgspec.msgpack.encode(COMMITTED))
    body[place % len(body)] = value
    bare, sock = pair()
    channel: Channel[Any] = Channel(sock, FromCandidate)
    bare.sendall(frame(bytes(body)))
    bare.close()

    with pytest.raises((ChannelGarbled, ChannelClosed)):
        exhaust(channel)
    channel.close()


def test_receiving_from_a_closed_end_says_so(ends) -> None:
    bare, channel = ends(FromServer)

    bare.close()

    with pytest.raises(ChannelClosed):
        channel.receive(soon())


def test_what_was_sent_before_the_end_closed_still_arrives(ends) -> None:
    bare, channel = ends(FromServer)
    bare.sendall(frame(msgspec.msgpack.encode(Spawned(1, 2))))

    bare.close()

    assert channel.receive(soon()) == Spawned(1, 2)


def test_a_message_cut_off_by_the_end_is_no_message(ends) -> None:
    bare, channel = ends(FromServer)
    bare.sendall(frame(msgspec.msgpack.encode(Spawned(1, 2)))[:-1])

    bare.close()

    with pytest.raises(ChannelClosed):
        channel.receive(soon())


def test_sending_to_a_closed_end_says_so(ends) -> None:
    bare, channel = ends(FromServer)

    bare.close()

    with pytest.raises(ChannelClosed):
        channel.send(Go(1))


def test_silence_ends_at_the_deadline_and_not_before(ends) -> None:
    _, channel = ends(FromServer)
    started_s = time.monotonic()

    with pytest.raises(ChannelTimeout):
        channel.receive(started_s + 0.05)

    assert 0.05 <= time.monotonic() - started_s < SOON_S


def test_half_a_message_does_not_extend_the_deadline(ends) -> None:
    bare, channel = ends(FromServer)

    bare.sendall(b"\x10\x00\x00\x00half")

    with pytest.raises(ChannelTimeout):
        channel.receive(time.monotonic() + 0.05)


def test_a_descriptor_is_passed_with_a_message(ends) -> None:
    bare, channel = ends(FromServer)
    reader, writer = os.pipe()

    Channel(bare, Any).send(Spawned(1, 2), [writer])
    channel.receive(soon())
    (received,) = channel.take_descriptors()
    os.write(received, b"through")
    told = os.read(reader, 100)
    for descriptor in (reader, writer, received):
        os.close(descriptor)

    assert told == b"through"
    assert channel.take_descriptors() == []


def test_closing_closes_descriptors_nobody_took(ends) -> None:
    bare, channel = ends(FromServer)
    reader, writer = os.pipe()
    Channel(bare, Any).send(Spawned(1, 2), [writer])
    channel.receive(soon())
    os.close(writer)

    channel.close()
    told = os.read(reader, 1)  # the end of the stream: no writer is left
    os.close(reader)

    assert told == b""


def test_a_flood_of_descriptors_is_garbled(ends) -> None:
    bare, channel = ends(FromServer)
    sender: Channel[Any] = Channel(bare, Any)

    for number in range(3):
        sender.send(Spawned(number, 1), [0, 1])

    with pytest.raises(ChannelGarbled, match="descriptors"):
        [channel.receive(soon()) for _ in range(3)]
