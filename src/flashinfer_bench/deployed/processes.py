"""Fresh processes with a model each, forked from one that has imported torch and nothing else."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import signal
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

_ENDS_WITHIN_S = 5.0


class SideFailedError(Exception):
    """A side raised, hung or ended; the message says which."""


class SideProcess:
    """One model in a process of its own; a context manager that ends it."""

    def __init__(self, timeout_s: float) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["flashinfer_bench.deployed.worker"])
        self._timeout_s = timeout_s
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pipe.close()
        if kind is not None:
            self._process.kill()
        self._process.join(_ENDS_WITHIN_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def send(self, name: str, **given: Any) -> None:
        """Ask for something; the answer is awaited with `answer`."""
        with contextlib.suppress(
            OSError
        ):  # a process that ended is noticed where its answer is awaited
            self._pipe.send_bytes(json.dumps({"do": name, "with": given}).encode())

    def answer(self) -> dict[str, Any]:
        """Await the answer; raises `SideFailedError`."""
        try:
            if not self._pipe.poll(self._timeout_s):
                raise SideFailedError(f"no answer within {self._timeout_s:g} s")
            answer: dict[str, Any] = json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            self._process.join(_ENDS_WITHIN_S)
            raise SideFailedError(
                f"its process ended: {_end_text(self._process.exitcode)}"
            ) from error
        if "raised" in answer:
            raise SideFailedError(answer["raised"])
        return answer

    def ask(self, name: str, **given: Any) -> dict[str, Any]:
        """Ask for something and await the answer."""
        self.send(name, **given)
        return self.answer()


def _serve(pipe: Any) -> None:
    from flashinfer_bench.deployed.worker import serve  # noqa: PLC0415  # torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    serve(pipe)


def _end_text(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
