"""Between a client and a server: passes all bytes on, and keeps those that the client received."""

from __future__ import annotations

import contextlib
import socket
import threading


class RecordingProxy:
    """A port of its own for one client."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("http://").rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._received: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def received(self) -> bytes:
        """All that the client got, of all connections."""
        return b"".join(self._received)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for source, sink, keep in ((client, server, False), (server, client, True)):
                    threading.Thread(
                        target=self._pump, args=(source, sink, keep), daemon=True
                    ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, keep: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if keep:
                    self._received.append(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
