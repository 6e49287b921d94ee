from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.data import (
    Definition,
    Trace,
    append_jsonl_file,
    load_json_file,
    load_jsonl_file,
    save_json_file,
    save_jsonl_file,
)
from flashinfer_bench.data.appending import append
from flashinfer_bench.errors import (
    DatasetError,
    DatasetNotFoundError,
    DatasetWarning,
    DeviceError,
)


def run(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_an_entity_comes_back_from_its_file(build: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "d.json"

    save_json_file(build.definition(), path)

    assert load_json_file(Definition, path) == build.definition()
    assert path.read_text(encoding="utf-8").endswith("}\n")
    assert [each.name for each in path.parent.iterdir()] == ["d.json"]


def test_lines_come_back_from_their_file(build: Any, tmp_path: Path) -> None:
    traces = [build.trace(uuid="w1"), build.trace(uuid="w2", status="TIMEOUT")]
    path = tmp_path / "t.jsonl"

    save_jsonl_file(traces[:1], path)
    append_jsonl_file(traces[1:], path)

    assert load_jsonl_file(Trace, path) == traces
    assert path.read_bytes().count(b"\n") == 2


def test_no_lines_make_an_empty_file_and_append_nothing(tmp_path: Path) -> None:
    save_jsonl_file([], tmp_path / "a.jsonl")
    append_jsonl_file([], tmp_path / "b.jsonl")

    assert load_jsonl_file(Trace, tmp_path / "a.jsonl") == []
    assert not (tmp_path / "b.jsonl").exists()


def test_blank_lines_are_skipped(build: Any, tmp_path: Path) -> None:
    path = build.write(tmp_path / "t.jsonl", f"\n{build.trace_line}\r\n  \n{build.trace_line}\n\n")

    assert len(load_jsonl_file(Trace, path)) == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.json") as caught:
        load_json_file(Definition, tmp_path / "nothing.json")

    assert isinstance(caught.value, DatasetNotFoundError)


def test_a_bad_line_is_named(build: Any, tmp_path: Path) -> None:
    path = build.write(tmp_path / "t.jsonl", f"{build.trace_line}\n{{}}\n")

    with pytest.raises(DatasetError, match=r"t.jsonl:2:1: Trace.definition: is required") as caught:
        load_jsonl_file(Trace, path)

    assert (caught.value.path, caught.value.line) == (path, 2)


def test_unknown_keys_warn_once_with_a_count_unless_strict(build: Any, tmp_path: Path) -> None:
    line = build.trace_line.replace('"type":"random"', '"type":"random","seed":1')
    path = build.write(tmp_path / "t.jsonl", f"{line}\n{line}\n")

    with pytest.warns(DatasetWarning, match=r"'seed' of RandomInput ignored \(2 times\)") as seen:
        load_jsonl_file(Trace, path)

    assert len(seen) == 1
    with pytest.raises(DatasetError, match="seed: unknown key"):
        load_jsonl_file(Trace, path, strict=True)


def test_a_torn_last_line_is_passed_over_when_reading(build: Any, tmp_path: Path) -> None:
    path = build.write(tmp_path / "t.jsonl", build.trace_line + "\n" + build.trace_line[:99])
    before = path.read_bytes()

    with pytest.warns(
        DatasetWarning,
        match=r"t.jsonl:2: torn last line \(99 bytes\) passed over; `validate --fix`",
    ):
        traces = load_jsonl_file(Trace, path)

    assert len(traces) == 1
    assert path.read_bytes() == before


def test_a_torn_last_line_is_moved_aside_when_appending(build: Any, tmp_path: Path) -> None:
    path = build.write(tmp_path / "t.jsonl", build.trace_line + "\n" + build.trace_line[:99])

    with pytest.warns(DatasetWarning, match="torn"):
        append_jsonl_file([build.trace()], path)

    assert len(load_jsonl_file(Trace, path)) == 2
    torn = Path(f"{path}.torn").read_text(encoding="utf-8")
    assert torn == build.trace_line[:99] + "\n"


def test_a_last_line_that_only_lacks_its_newline_stays(build: Any, tmp_path: Path) -> None:
    path = build.write(tmp_path / "t.jsonl", build.trace_line)

    append_jsonl_file([build.trace()], path)

    assert len(load_jsonl_file(Trace, path)) == 2
    assert not Path(f"{path}.torn").exists()


def test_a_long_torn_line_is_moved_whole(build: Any, tmp_path: Path) -> None:
    torn = '{"log":"' + "x" * 200_000
    path = build.write(tmp_path / "t.jsonl", f"{build.trace_line}\n{torn}")

    with pytest.warns(DatasetWarning, match="200008 bytes"):
        append_jsonl_file([build.trace()], path)

    assert len(load_jsonl_file(Trace, path)) == 2


def test_several_processes_append_whole_lines(build: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    script = """
        import sys
        from flashinfer_bench.data.appending import append
        path, mark = sys.argv[1:]
        for number in range(50):
            append({path: f'{{"mark":{mark},"number":{number},"pad":"{"x" * 9000}"}}\\n'.encode()})
    """

    processes = [run(script, path, mark) for mark in range(4)]
    codes = [process.wait(timeout=60) for process in processes]

    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert codes == [0, 0, 0, 0]
    assert sorted((line["mark"], line["number"]) for line in lines) == [
        (mark, number) for mark in range(4) for number in range(50)
    ]


def test_a_killed_writer_loses_at_most_the_line_in_flight(build: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    script = """
        import itertools, sys
        from flashinfer_bench.data.appending import append
        for number in itertools.count():
            append({sys.argv[1]: f'{{"number":{number},"pad":"{"x" * 100000}"}}\\n'.encode()})
            print(number, flush=True)
    """
    process = run(script, path)
    assert process.stdout is not None
    for _ in range(20):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    confirmed = 19 + len(process.stdout.read().split())

    append({str(path): b'{"number":-1}\n'})

    numbers = [json.loads(line)["number"] for line in path.read_bytes().splitlines()]
    assert numbers[-1] == -1
    assert numbers[:-1] == list(range(len(numbers) - 1))
    assert len(numbers) - 1 > confirmed


def test_a_waiting_writer_follows_a_file_that_was_replaced(build: Any, tmp_path: Path) -> None:
    import fcntl

    path = build.write(tmp_path / "t.jsonl", '{"old":1}\n')
    script = """
        import sys
        from flashinfer_bench.data.appending import append
        append({sys.argv[1]: b'{"new":1}\\n'})
    """
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = run(script, path)
        time.sleep(0.5)
        path.rename(tmp_path / "moved.jsonl")
    process.wait(timeout=30)

    assert path.read_text(encoding="utf-8") == '{"new":1}\n'
    assert (tmp_path / "moved.jsonl").read_text(encoding="utf-8") == '{"old":1}\n'


FULL_DISK = """
    import resource, sys
    from flashinfer_bench.data.appending import append
    from flashinfer_bench.data.files import write_whole
    from flashinfer_bench.errors import DeviceError
    from pathlib import Path
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    block = b'{"pad":"' + b"x" * 5000 + b'"}\\n'
    try:
        if sys.argv[1] == "append":
            append({path: block if path == sys.argv[-1] else b"{}\\n" for path in sys.argv[2:]})
        else:
            write_whole(Path(sys.argv[2]), block)
    except DeviceError as error:
        print(type(error).__name__, isinstance(error, OSError), error)
"""


def test_on_a_full_disk_an_append_leaves_nothing(build: Any, tmp_path: Path) -> None:
    first = build.write(tmp_path / "a.jsonl", '{"old":1}\n')
    new = tmp_path / "b.jsonl"
    full = build.write(tmp_path / "c.jsonl", '{"old":2}\n')

    output, _ = run(FULL_DISK, "append", first, new, full).communicate(timeout=30)

    assert output.startswith(b"StorageError True cannot write")
    assert str(full).encode() in output
    assert first.read_text(encoding="utf-8") == '{"old":1}\n'
    assert full.read_text(encoding="utf-8") == '{"old":2}\n'
    assert not new.exists()


def test_on_a_full_disk_a_file_stays_as_it_was(build: Any, tmp_path: Path) -> None:
    path = build.write(tmp_path / "a.json", "old")

    output, _ = run(FULL_DISK, "whole", path).communicate(timeout=30)

    assert output.startswith(b"StorageError")
    assert path.read_text(encoding="utf-8") == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_a_place_that_cannot_be_written_is_named(build: Any, tmp_path: Path) -> None:
    blocked = build.write(tmp_path / "file", "")

    for act in (
        lambda: append_jsonl_file([build.trace()], blocked / "t.jsonl"),
        lambda: save_jsonl_file([build.trace()], blocked / "t.jsonl"),
    ):
        with pytest.raises(DeviceError, match=str(blocked / "t.jsonl")):
            act()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_read_only_folder_is_named_to_an_ordinary_user(build: Any, tmp_path: Path) -> None:
    folder = tmp_path / "dataset"
    folder.mkdir()
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_uid == 0 and each.parts[:2] == ("/", "tmp") and len(each.parts) > 2:
            each.chmod(0o755)
    script = """
        import os, sys
        from flashinfer_bench.data.appending import append
        from flashinfer_bench.errors import DeviceError
        os.setuid(65534)
        try:
            append({sys.argv[1]: b"{}\\n"})
        except DeviceError as error:
            print(error)
    """

    output, _ = run(script, folder / "t.jsonl").communicate(timeout=30)

    assert b"Permission denied" in output
    assert b"--output DIR" in output
