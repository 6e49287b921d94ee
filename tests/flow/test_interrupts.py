"""Ctrl-C and SIGTERM end a run soon: its parent, its workers, and nothing that was finished is lost."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.flow.kernels import slow, wait_for, write_dataset
from tests.flow.test_durability import SIZES, descendants, recorded, start
from tests.marks import mostly_full


@pytest.mark.parametrize("sent", mostly_full([signal.SIGINT, signal.SIGTERM], signal.SIGINT))
def test_an_interrupt_stops_within_a_second_and_keeps_what_was_finished(
    tmp_path: Path, sent: signal.Signals
) -> None:
    root = write_dataset(tmp_path / "ds", slow("steady", 0.05), sizes=SIZES)
    running = start(root)
    wait_for(lambda: len(recorded(root)) >= 1)
    workers = descendants(running.pid)
    started_s = time.monotonic()

    running.send_signal(sent)
    _, errors = running.communicate(timeout=20)
    took_s = time.monotonic() - started_s

    assert running.returncode == 130
    assert took_s < 1.5
    assert "Traceback" not in errors
    assert len(recorded(root)) >= 1
    wait_for(lambda: not any(worker.is_running() for worker in workers), 5.0)
