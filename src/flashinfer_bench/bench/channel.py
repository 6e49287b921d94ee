"""Framed messages over a private socket, with deadlines and passed descriptors.

A frame is a four-byte little-endian length and that many bytes of MessagePack, decoded into one of the
types the receiver is ready for; whatever else arrives is `ChannelGarbled`. Nothing is ever unpickled:
the other end may be a hostile kernel.
"""

from __future__ import annotations

import array
import contextlib
import select
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from flashinfer_bench.tensors.planned import read, written

if TYPE_CHECKING:
    from collections.abc import Sequence

Received = TypeVar("Received")

_LENGTH = struct.Struct("<I")
_LARGEST_FRAME_BYTES = 256 << 20
_MOST_DESCRIPTORS = 4
_DESCRIPTOR_SPACE = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
_CHUNK_BYTES = 1 << 16


class ChannelClosed(Exception):  # noqa: N818  # an event at the other end, not a fault of ours
    """The other end is gone, or closed its descriptor."""


class ChannelGarbled(Exception):  # noqa: N818
    """What arrived is no message of ours."""


class ChannelTimeout(Exception):  # noqa: N818
    """Nothing arrived before the deadline."""


class Channel(Generic[Received]):
    """One end of a stream socket that carries messages of a closed set of types."""

    def __init__(self, sock: socket.socket, receives: type[Received] | Any) -> None:
        sock.setblocking(True)
        self.socket = sock
        self._decoder: msgspec.msgpack.Decoder[Received] = msgspec.msgpack.Decoder(
            receives, dec_hook=read
        )
        self._encoder = msgspec.msgpack.Encoder(enc_hook=written)
        self._buffer = bytearray()
        self._descriptors: list[int] = []
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def fileno(self) -> int:
        """Let selectors watch the channel."""
        return self.socket.fileno()

    def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        """Send one message, and duplicates of open descriptors with it."""
        body = self._encoder.encode(message)
        frame = _LENGTH.pack(len(body)) + body
        try:
            if descriptors:
                sent = socket.send_fds(self.socket, [frame], list(descriptors))
                frame = frame[sent:]
            if frame:
                self.socket.sendall(frame)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed from error

    def receive(self, deadline_s: float | None = None) -> Received:
        """Return the next message; `deadline_s` is on the monotonic clock."""
        while (message := self.pending()) is None:
            if deadline_s is not None:
                self._wait(deadline_s)
            self.fill()
        return message

    def take_descriptors(self) -> list[int]:
        """Hand over the descriptors received so far; the caller closes them."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def fill(self) -> None:
        """Read what the socket has; call when it is readable."""
        try:
            data, ancillary, _, _ = self.socket.recvmsg(_CHUNK_BYTES, _DESCRIPTOR_SPACE)
        except ConnectionResetError as error:
            raise ChannelClosed from error
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                self._descriptors.extend(received)
        if len(self._descriptors) > _MOST_DESCRIPTORS:  # a flood of them would exhaust ours
            raise ChannelGarbled("more descriptors came than any message carries")
        if not data:
            raise ChannelClosed
        self._buffer += data

    def pending(self) -> Received | None:
        """Return a message that has arrived whole, if there is one."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > _LARGEST_FRAME_BYTES:
            raise ChannelGarbled(f"a frame of {length} bytes was announced")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ChannelGarbled(str(error)) from error

    def has_pending(self) -> bool:
        """Tell whether `pending` has something to return, or to complain of."""
        if len(self._buffer) < _LENGTH.size:
            return False
        length: int = _LENGTH.unpack_from(self._buffer)[0]
        return length > _LARGEST_FRAME_BYTES or len(self._buffer) >= _LENGTH.size + length

    def is_readable(self) -> bool:
        """Tell whether something has arrived, or the other end is closed."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """Close this end."""
        for descriptor in self.take_descriptors():
            with contextlib.suppress(OSError):
                socket.close(descriptor)
        self.socket.close()

    def _wait(self, deadline_s: float) -> None:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or not self._poll.poll(left_s * 1e3):
            raise ChannelTimeout


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected stream sockets."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
