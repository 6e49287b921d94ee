"""Work for a server: take submitted solutions, run them on this machine's devices, send the traces."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, local_option, log_level_option
from flashinfer_bench.serve.commands.connecting import IS_TOLD_BY_STDIN, server_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.serve.worker import DeviceWorker

_LOOK_S = 0.2


@click.command(
    cls=Command,
    document={"server": "str", "devices": "list[str]", "key": "str"},
    examples=[
        "flashinfer-bench worker --server http://farm:8000 --token-file worker.token",
        "flashinfer-bench worker --server http://farm:8000 --token-file worker.token --device cuda:0 --local dataset",
    ],
)
@server_options
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAMES",
    help="cpu, cuda:0, or several as cuda:0,cuda:1; auto takes every GPU, else the CPU.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="What the server calls this machine; of two with one name the newer works.  [default: the host's name]",
)
@click.option(
    "--key",
    metavar="FILE",
    help="The key that signs traces; made on first use.  [default: one in the cache folder]",
)
@local_option
@json_option
@log_level_option
def worker(  # noqa: PLR0917  # click passes options by name
    server: str,
    token: str | None,
    device: str,
    name: str | None,
    key: str | None,
    local: tuple[str, ...],
    as_json: bool,
) -> None:
    """Work for a server: take submitted solutions, run them on this machine's devices, send the traces.

    The server gives definitions, workloads and settings; --local names copies of the dataset for inputs that
    workloads keep in files. SIGTERM and Ctrl-C finish the batch in hand, a second one gives it back.
    """
    from flashinfer_bench.bench.parent.pool import device_names  # noqa: PLC0415  # pydantic
    from flashinfer_bench.cli.datasets import dataset_paths  # noqa: PLC0415
    from flashinfer_bench.serve.links import HttpLink  # noqa: PLC0415
    from flashinfer_bench.serve.signing import SigningKey, worker_key_file  # noqa: PLC0415
    from flashinfer_bench.serve.worker import DeviceWorker  # noqa: PLC0415

    signing = SigningKey.of_file(Path(key) if key else worker_key_file())
    link = HttpLink(server, token)
    roots: Sequence[Path] = dataset_paths(local) if local else ()
    workers = [
        DeviceWorker(link, each, name=name, roots=roots, key=signing, tell=log.inform)
        for each in device_names(device)
    ]
    if as_json:
        devices = [each.device for each in workers]
        screen.show_json(
            {"schema_version": 1, "server": server, "devices": devices, "key": signing.public}
        )
    log.inform(f"traces are signed with the key {signing.public}")
    _work(workers, ends_with_stdin=click.get_current_context().meta[IS_TOLD_BY_STDIN])


def _work(workers: Sequence[DeviceWorker], *, ends_with_stdin: bool) -> None:
    """Work on every device until a signal, the end of stdin, or a fault; a fault is raised."""
    ending = _WorkersEnd()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ending.ask)
    threads = [threading.Thread(target=ending.run, args=(each,), daemon=True) for each in workers]
    if ends_with_stdin:
        threading.Thread(target=ending.await_end_of_stdin, daemon=True).start()
    for thread in threads:
        thread.start()
    while not ending.is_asked.wait(_LOOK_S):  # a signal is heard between two looks
        pass
    for each in workers:
        each.stop()
    if any(each.is_busy for each in workers):
        log.inform("finishing the batch in hand; again, to give it back")
    while any(each.is_busy for each in workers) and not ending.is_urgent.wait(_LOOK_S):
        pass
    for each in workers:
        each.stop(at_once=True)
        each.leave()
    if ending.faults:
        raise ending.faults[0]


class _WorkersEnd:
    """Who asks the workers to end, and how soon."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.is_urgent = threading.Event()
        self.faults: list[BaseException] = []

    def ask(self, *_: object) -> None:
        """Hear a signal; the second one is urgent."""
        (self.is_urgent if self.is_asked.is_set() else self.is_asked).set()

    def await_end_of_stdin(self) -> None:
        """Hear that whoever started this process is gone, or wants it to be."""
        while sys.stdin.buffer.read(1):
            pass
        self.is_asked.set()
        self.is_urgent.set()

    def run(self, worker: DeviceWorker) -> None:
        """Run a worker, in a thread of its own; a fault ends all."""
        try:
            worker.run()
        except BaseException as error:  # noqa: BLE001  # raised in the main thread
            self.faults.append(error)
        self.is_asked.set()
