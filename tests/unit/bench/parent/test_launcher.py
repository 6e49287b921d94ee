"""A worker's end is told by the server; what it said before is heard all the same."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashinfer_bench.bench.channel import Channel, pair
from flashinfer_bench.bench.parent.launcher import Launcher, Worker, WorkerDied
from flashinfer_bench.bench.protocol import Built, FromCandidate, ToCandidate


def test_what_a_worker_said_before_it_ended_is_heard_however_early_its_end_is_known(
    tmp_path: Path,
) -> None:
    theirs, ours = pair()
    said: Channel[Any] = Channel(theirs, ToCandidate)
    heard: Channel[Any] = Channel(ours, FromCandidate)
    log: Any = SimpleNamespace(drain=lambda: None)
    worker = Worker(1, "candidate", log, tmp_path, heard, status=0)
    launcher = Launcher(environment={}, threads=1, stop=-1)

    said.send(Built(1))
    said.close()

    deadline_s = time.monotonic() + 5
    assert launcher.receive(heard, deadline_s=deadline_s, watching=[worker]) == Built(1)
    with pytest.raises(WorkerDied, match="exited with code 0"):
        launcher.receive(heard, deadline_s=deadline_s, watching=[worker])
    heard.close()
