"""The background writer: bounded memory, nothing lost that was flushed, nothing written twice."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
import torch

from flashinfer_bench.data import Definition
from flashinfer_bench.data.layout import Layout
from flashinfer_bench.errors import StorageError
from flashinfer_bench.tracing.records import KnownWorkloads, WorkloadEntry
from flashinfer_bench.tracing.writer import Writer

from .conftest import add_definition, blobs, lines

MIB = 2**20


def entry(number: int, *, megabytes: float = 0) -> WorkloadEntry:
    tensors = {"x": torch.full((int(megabytes * MIB / 16), 4), float(number))}
    return WorkloadEntry(
        "gather_d4",
        {"rows": number, "picked": 1},
        tensors if megabytes else {},
        number,
        scalars={"scale": 1.0},
    )


def test_a_flush_returns_once_all_is_on_disk(tmp_path: Path, gather: Definition) -> None:
    writer = Writer(Layout(tmp_path), MIB)

    for number in range(600):  # several batches
        writer.put(entry(number), gather)
    writer.flush()

    assert [line.workload.axes["rows"] for line in lines(tmp_path, gather)] == [*range(600)]


def test_a_flush_of_nothing_returns_at_once(tmp_path: Path) -> None:
    Writer(Layout(tmp_path), MIB).flush(timeout_s=0.0)


def test_no_more_waits_than_the_buffer_holds(tmp_path: Path, gather: Definition) -> None:
    writer = Writer(Layout(tmp_path), 2 * MIB)
    writer.writing.acquire()  # the disk stands still
    held: list[int] = []

    def put_all() -> None:
        for number in range(5):
            writer.put(entry(number, megabytes=0.9), gather)
            held.append(number)

    thread = threading.Thread(target=put_all)
    thread.start()
    time.sleep(0.3)
    before = len(held)
    writer.writing.release()
    thread.join()
    writer.flush()

    assert before == 2
    assert len(lines(tmp_path, gather)) == 5


def test_an_entry_larger_than_the_buffer_goes_through_alone(
    tmp_path: Path, gather: Definition
) -> None:
    writer = Writer(Layout(tmp_path), MIB)

    writer.put(entry(1, megabytes=3), gather)
    writer.put(entry(2, megabytes=3), gather)
    writer.flush()

    assert len(blobs(tmp_path)) == 2


def test_what_cannot_be_written_is_counted_and_raised_by_the_flush(
    tmp_path: Path, gather: Definition
) -> None:
    layout = Layout(tmp_path)
    layout.workloads.mkdir(parents=True)
    (layout.workloads / "gather").write_text("a file where a folder must be")
    writer = Writer(layout, MIB)

    writer.put(entry(1), gather)
    with pytest.raises(StorageError, match=r"cannot write .*gather"):
        writer.flush()

    assert writer.written.lost["gather_d4"] == 1
    writer.flush()  # said once


def test_an_entry_that_fails_takes_no_other_along(tmp_path: Path, gather: Definition) -> None:
    writer = Writer(Layout(tmp_path), MIB)
    writer.writing.acquire()  # all three come in one batch
    broken = WorkloadEntry("gather_d4", {"rows": -1}, scalars={"scale": 1.0})

    for each in (entry(1), broken, entry(2)):
        writer.put(each, gather)
    time.sleep(0.05)
    writer.writing.release()
    with pytest.raises(StorageError):
        writer.flush()

    assert [line.workload.axes["rows"] for line in lines(tmp_path, gather)] == [1, 2]
    assert writer.written.lost["gather_d4"] == 1


def test_tensors_that_differ_are_kept_apart_and_equal_ones_are_stored_once(
    tmp_path: Path, gather: Definition
) -> None:
    writer = Writer(Layout(tmp_path), MIB)
    same = {"rows": 2, "picked": 1}

    for value in (1.0, 2.0, 1.0):
        tensors = {"x": torch.full((2, 4), value)}
        writer.put(WorkloadEntry("gather_d4", same, tensors, scalars={"scale": 1.0}), gather)
    writer.flush()

    assert len(blobs(tmp_path)) == len(lines(tmp_path, gather)) == 2
    assert writer.written.repeated["gather_d4"] == 1


def test_a_forked_child_writes_its_own_and_leaves_the_parents_to_it(
    tmp_path: Path, gather: Definition
) -> None:
    add_definition(tmp_path, gather)
    writer = Writer(Layout(tmp_path), MIB)
    writer.put(entry(1), gather)
    writer.flush()
    with writer.writing:
        child = os.fork()
        if not child:
            status = 1
            try:
                writer.after_fork_in_child()
                writer.put(entry(2), gather)
                writer.flush(30)
                status = 0
            finally:
                os._exit(status)
    _, status = os.waitpid(child, 0)
    writer.put(entry(3), gather)
    writer.flush()

    assert status == 0
    assert sorted(line.workload.axes["rows"] for line in lines(tmp_path, gather)) == [1, 2, 3]
    assert writer.written.workloads["gather_d4"] == 2


def test_known_workloads_follow_what_others_append_and_pass_over_torn_lines(
    tmp_path: Path, gather: Definition
) -> None:
    path = Layout(tmp_path).workload_file(gather)
    known = KnownWorkloads()

    assert not known.holds(str(path), "a")
    path.parent.mkdir(parents=True)
    path.write_text('{"workload": {"uuid": "a"}}\n{"workload": {"uuid": "b"')
    assert known.holds(str(path), "a")
    assert not known.holds(str(path), "b")
    with path.open("a") as file:
        file.write("}}\n")
    assert known.holds(str(path), "b")
    path.write_text('{"workload": {"uuid": "c"}}\n')
    assert known.holds(str(path), "c")
    assert not known.holds(str(path), "a")


def test_uuids_are_made_of_content(tmp_path: Path, gather: Definition) -> None:
    for folder in ("one", "other"):
        writer = Writer(Layout(tmp_path / folder), MIB)
        writer.put(entry(4, megabytes=0.01), gather)
        writer.flush()

    one, other = (lines(tmp_path / folder, gather) for folder in ("one", "other"))

    assert one == other
