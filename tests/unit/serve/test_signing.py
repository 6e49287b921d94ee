"""Keys, signatures on entry, and what `report verify` names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashinfer_bench.cli.document_schemas import document_schema
from flashinfer_bench.data import Correctness, EvaluationStatus, TraceSet
from flashinfer_bench.errors import UsageError
from flashinfer_bench.serve.database import _TABLES, SqliteDatabase
from flashinfer_bench.serve.messages import WorkerResult
from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.serve.service import Service
from flashinfer_bench.serve.signing import SigningKey
from flashinfer_bench.serve.tokens import LOCAL
from flashinfer_bench.serve.verifying import read_keys, verify
from tests.commands import call
from tests.flow.kernels import write_dataset
from tests.golden.test_document_schemas import faults as schema_faults
from tests.unit.serve.parts import KEY, register, service, signed, submission, trace_of

SAMPLES = {"solution": [1.0, 2.0], "reference": [3.0]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset with two signed traces, one of them with samples."""
    root = write_dataset(tmp_path / "dataset", sizes=(100, 200))
    running = service(TraceSet.from_path(root))
    running.submit(submission(), LOCAL)
    grant = running.take(register(running))
    assert grant is not None
    running.finish(grant.lease, signed(trace_of(grant, index=0), samples=SAMPLES))
    running.finish(grant.lease, signed(trace_of(grant, index=1)))
    running.close()
    return root


def file_of(root: Path, end: str) -> Path:
    (found,) = (root / "traces").rglob(f"*{end}")
    return found


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def faults(root: Path) -> list[tuple[str, int]]:
    return [(each.kind, each.line) for each in verify(root).faults]


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "state" / "worker.key"

    first, second = SigningKey.of_file(file), SigningKey.of_file(file)

    assert first.public == second.public
    assert file.stat().st_mode & 0o777 == 0o600
    assert first.public not in file.read_text()
    assert list(file.parent.iterdir()) == [file]


def test_a_key_that_others_can_read_or_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "worker.key"
    SigningKey.of_file(file)
    file.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        SigningKey.of_file(file)
    file.chmod(0o600)
    file.write_text("none")
    with pytest.raises(UsageError, match="holds no key"):
        SigningKey.of_file(file)


def test_signed_traces_are_verified_and_their_worker_is_named(root: Path) -> None:
    report = verify(root)

    assert (report.traces, report.verified, report.faults) == (2, 2, ())
    (worker,) = report.workers
    assert (worker.worker, worker.key, worker.traces) == ("box/cpu", KEY.public, 2)


def test_every_flipped_byte_of_a_trace_line_is_named(root: Path) -> None:
    file = file_of(root, ".jsonl")
    whole = file.read_bytes()
    end = whole.index(b"\n")
    for index in range(0, end, 7):
        flipped = bytearray(whole)
        flipped[index] ^= 1
        if flipped[index] == ord("\n"):
            continue
        file.write_bytes(flipped)
        assert any(line == 1 for kind, line in faults(root) if kind != "gone"), index


@pytest.mark.parametrize(
    ("end", "old", "new", "found"),
    [
        (".jsonl", "RUNTIME_ERROR", "COMPILE_ERROR", [("wrong", 1)]),
        (".samples.ndjson", "3.0", "2.0", [("wrong", 1)]),
        (".signatures.ndjson", '"worker":"box/cpu"', '"worker":"fox/cpu"', [("wrong", 1)]),
        (".signatures.ndjson", '"key":"', '"key":"0', [("unsigned", 1)]),
    ],
)
def test_what_was_changed_is_named(
    root: Path, end: str, old: str, new: str, found: list[tuple[str, int]]
) -> None:
    change(file_of(root, end), old, new)

    assert faults(root) == found


def test_what_is_not_there_is_named(root: Path) -> None:
    traces, samples, signatures = (
        file_of(root, end) for end in (".jsonl", ".samples.ndjson", ".signatures.ndjson")
    )
    first, second = traces.read_text().splitlines(keepends=True)

    traces.write_text(first)
    assert faults(root) == [("gone", 2)]
    traces.write_text(first + second)
    samples.unlink()
    assert faults(root) == [("wrong", 1)]
    signatures.unlink()
    assert faults(root) == [("unsigned", 1), ("unsigned", 2)]


def test_a_key_that_was_not_given_is_unknown(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys"

    file.write_text(f"# ours\n\n{SigningKey().public}\n")
    strangers = verify(root, read_keys(file))
    file.write_text(f"{KEY.public} another/cpu\n")
    of_another = verify(root, read_keys(file))
    file.write_text(f"{KEY.public} box/cpu # here\n")
    ours = verify(root, read_keys(file))

    assert [each.kind for each in strangers.faults] == ["unknown_key"] * 2
    assert KEY.public in strangers.faults[0].reason
    assert "another/cpu" in of_another.faults[0].reason
    assert ours.faults == ()


def test_the_command_says_what_is_wrong_and_exits_with_1(root: Path, tmp_path: Path) -> None:
    good = call("report", "verify", root)
    change(file_of(root, ".jsonl"), "RUNTIME_ERROR", "COMPILE_ERROR")
    bad = call("report", "verify", root, "--json")
    keys = tmp_path / "keys"
    keys.write_text("no key\n")
    unreadable = call("report", "verify", root, "--keys", keys)

    assert good.returncode == 0, good.stderr
    assert "2 of 2 traces are as they were signed" in good.stdout
    assert bad.returncode == 1
    schema, document = document_schema("verify"), json.loads(bad.stdout)
    assert list(schema_faults(document, schema, schema, "verify")) == []
    (fault,) = document["verify"]["faults"]
    assert (fault["kind"], fault["line"]) == ("wrong", 1)
    assert fault["file"] == "traces/tester/elementwise/increment.jsonl"
    assert unreadable.returncode == 2
    assert f"--keys {keys}:1: 'no' is no key" in unreadable.stderr


@pytest.mark.parametrize("fault", ["unsigned", "another key", "another worker", "another trace"])
def test_a_forged_signature_is_refused_on_entry(fault: str) -> None:
    running: Service = service()
    task = running.submit(submission(), LOCAL).task_id
    grant = running.take(register(running))
    assert grant is not None
    trace = trace_of(grant)
    given = {
        "unsigned": lambda: signed(trace).model_copy(update={"signature": None}),
        "another key": lambda: signed(trace, key=SigningKey()),
        "another worker": lambda: signed(trace, "fox/cpu"),
        "another trace": lambda: signed(trace).model_copy(
            update={"trace": trace_of(grant, seed=2)}
        ),
    }[fault]()

    with pytest.raises(RefusedError, match="sign") as refused:
        running.finish(grant.lease, given)

    assert refused.value.status == 422
    assert running.state(task, LOCAL).ended_workloads == 0
    running.finish(grant.lease, signed(trace))
    assert running.state(task, LOCAL).status == "completed"
    running.close()


def test_samples_that_were_not_signed_are_refused() -> None:
    running = service()
    running.submit(submission(), LOCAL)
    grant = running.take(register(running))
    assert grant is not None
    given = signed(trace_of(grant), samples=SAMPLES)

    with pytest.raises(RefusedError, match="signature"):
        running.finish(grant.lease, given.model_copy(update={"samples": {"solution": [9.0]}}))
    running.close()


def test_whatever_a_trace_holds_its_signature_survives_the_way_to_the_server() -> None:
    running = service()
    task = running.submit(submission(), LOCAL).task_id
    grant = running.take(register(running))
    assert grant is not None
    trace = trace_of(grant)
    assert trace.evaluation is not None
    strange = {
        "status": EvaluationStatus.INCORRECT_NUMERICAL,
        "log": '\x00\x1b[31m\u2028 \U0001f600 \\ " é\r\n',
        "correctness": Correctness(
            max_relative_error=float("nan"),
            max_absolute_error=float("inf"),
            extra={"deep": [1, 1.0, 1e-320, 0.1 + 0.2, -0.0, 10**20, None, {"x": float("-inf")}]},
        ),
    }
    evaluation = trace.evaluation.model_copy(update=strange)
    given = signed(
        trace.model_copy(update={"evaluation": evaluation}),
        samples={"solution": [0.1, 1e-17, 3.0, 123456789.123456789]},
    )

    running.finish(grant.lease, WorkerResult.model_validate_json(given.to_json()))

    (row,) = running.queue.task(task, None)["results"]
    assert row["trace"] == trace.model_copy(update={"evaluation": evaluation}).to_json()
    running.close()


def test_merged_datasets_keep_their_signatures(root: Path, tmp_path: Path) -> None:
    other = write_dataset(tmp_path / "other", sizes=())

    done = call("report", "merge", root, other, "--output", tmp_path / "both")

    assert done.returncode == 0, done.stderr
    assert verify(tmp_path / "both").verified == 2
    assert call("validate", "--local", root).returncode == 0


def test_a_store_of_the_version_before_is_brought_up_to_date(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    older = _TABLES.replace(",\n    key TEXT NOT NULL DEFAULT ''", "").replace(
        "    signature TEXT,\n", ""
    )
    assert len(older) < len(_TABLES) - 40
    import sqlite3

    connection = sqlite3.connect(store)
    connection.executescript(f"{older} INSERT INTO versions VALUES (1);")
    connection.close()

    running = service(database=SqliteDatabase(store))
    running.submit(submission(), LOCAL)
    grant = running.take(register(running))
    assert grant is not None
    running.finish(grant.lease, signed(trace_of(grant)))
    running.close()

    SqliteDatabase(store).close()  # a second time there is nothing to do


def test_a_line_that_stands_twice_is_named(root: Path) -> None:
    file = file_of(root, ".jsonl")
    first, second = file.read_text().splitlines(keepends=True)

    file.write_text(first + second + first)

    assert faults(root) == [("repeated", 3)]


def test_other_samples_beside_those_that_were_signed_are_named(root: Path) -> None:
    file = file_of(root, ".samples.ndjson")
    line = file.read_text()

    file.write_text(line + line.replace("3.0", "2.0"))

    assert faults(root) == [("wrong", 1)]
