"""Tasks, leases and results: what a worker is given, what of it counts, what a tenant may ask for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from flashinfer_bench.data import TraceSet
from flashinfer_bench.errors import StorageError, UsageError
from flashinfer_bench.serve import messages
from flashinfer_bench.serve import service as service_module
from flashinfer_bench.serve.app import app
from flashinfer_bench.serve.database import Database, SqliteDatabase, open_store
from flashinfer_bench.serve.queued import QueueLimits
from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.serve.running import JsonLogLine
from flashinfer_bench.serve.service import Service
from flashinfer_bench.serve.tokens import LOCAL, Quotas, Requester
from tests.flow.kernels import write_dataset
from tests.loops import run_apart
from tests.postgres import emptied
from tests.unit.serve.parts import (
    do_all,
    hand_in,
    register,
    service,
    submission,
    trace_of,
)


@pytest.fixture(params=["sqlite", "postgres"])
def running(request: pytest.FixtureRequest) -> Iterator[Service]:
    database: Database = SqliteDatabase(None)
    if request.param == "postgres":
        database = open_store(emptied(request.getfixturevalue("postgres")))
    made = service(sizes=(100, 200), database=database)
    yield made
    made.close()


def tenant(of: Service, name: str, quotas: Quotas | None = None) -> Requester:
    found = of.tokens.caller(of.tokens.add(name, ["submit"], quotas))
    assert found is not None
    return found


def test_a_task_is_done_by_a_worker_and_has_its_traces_in_order(running: Service) -> None:
    worker = register(running)
    task = running.submit(submission(), LOCAL)

    do_all(running, worker)

    state = running.state(task.task_id, LOCAL)
    assert (state.status, state.outcome) == ("completed", "evaluated")
    assert [trace.workload.axes["n"] for trace in state.traces or ()] == [100, 200]
    assert {trace.solution for trace in state.traces or ()} == {task.normalized_solution_name}


def test_a_solution_is_named_by_its_content(running: Service) -> None:
    given = submission(name="fast")

    name = running.submit(given, LOCAL).normalized_solution_name

    assert name == f"fast_{given.solution.legacy_hash()[:8]}"


def test_code_that_differs_where_the_short_hash_does_not_has_a_name_of_its_own(
    running: Service,
) -> None:
    given = submission()
    spec = given.solution.spec.model_copy(update={"destination_passing_style": True})
    other = given.model_copy(update={"solution": given.solution.model_copy(update={"spec": spec})})

    names = [running.submit(each, LOCAL).normalized_solution_name for each in (given, other)]

    assert len(set(names)) == 2


def test_an_expired_lease_goes_to_another_and_its_late_answer_is_refused() -> None:
    running = service(limits=QueueLimits(lease_s=0.0))
    task = running.submit(submission(), LOCAL)
    late = running.take(register(running, "slow"))
    assert late is not None

    running.queue.sweep()
    running.queue.limits = QueueLimits()
    again = running.take(register(running, "quick"))
    assert again is not None
    with pytest.raises(RefusedError, match="this lease is over"):
        hand_in(running, late)
    hand_in(running, again)

    assert late.lease != again.lease
    state = running.state(task.task_id, LOCAL)
    assert len(state.traces or ()) == 1
    running.close()


def test_a_result_that_is_sent_twice_is_stored_once(running: Service) -> None:
    task = running.submit(submission(), LOCAL)
    grant = running.take(register(running))
    assert grant is not None

    hand_in(running, grant)
    hand_in(running, grant)

    assert running.state(task.task_id, LOCAL).ended_workloads == 1


def test_a_batch_that_is_given_back_keeps_what_it_had(running: Service) -> None:
    running.submit(submission(), LOCAL)
    worker = register(running)
    grant = running.take(worker)
    assert grant is not None
    hand_in(running, grant)

    running.release(grant.lease, messages.Release(reason="stopped", is_fault=False))
    again = running.take(worker)

    assert again is not None
    assert [each.axes["n"] for each in again.workloads] == [200]


def test_three_faults_in_a_row_end_a_task_and_are_not_its_fault(running: Service) -> None:
    task = running.submit(submission(), LOCAL)

    for name in ("one", "two", "three"):
        grant = running.take(register(running, name))
        assert grant is not None
        running.release(grant.lease, messages.Release(reason="it broke", is_fault=True))

    state = running.state(task.task_id, LOCAL)
    assert (state.status, state.outcome) == ("failed", "infra_failed")
    assert "not the solution" in (state.error or "")


@pytest.mark.parametrize("begun", [False, True])
def test_a_worker_that_dies_counts_once_it_had_begun(running: Service, begun: bool) -> None:
    task = running.submit(submission(), LOCAL).task_id
    told = messages.Beat.model_validate({"events": [{"kind": "started", "data": {}}] * begun})

    for _ in range(3):
        grant = running.take(register(running))
        assert grant is not None
        assert running.keep(grant.lease, told).is_held
    register(running)  # which says that the last one is gone

    assert running.state(task, LOCAL).outcome == ("infra_failed" if begun else None)


def test_three_faults_in_a_row_quarantine_a_device_until_it_is_forgiven(running: Service) -> None:
    worker = register(running)
    for number in range(3):
        running.submit(submission(name=f"s{number}"), LOCAL)
        grant = running.take(worker)
        assert grant is not None
        running.release(grant.lease, messages.Release(reason="no memory", is_fault=True))

    with pytest.raises(RefusedError, match=r"quarantined: it failed 3 times .* no memory"):
        running.take(worker)
    assert not running.health().workers[0].healthy
    running.forgive("box/cpu")
    assert running.take(worker) is not None


def test_a_known_result_is_the_answer_and_says_so(running: Service) -> None:
    worker = register(running)
    first = running.submit(submission(), LOCAL)
    do_all(running, worker)

    second = running.submit(submission(), LOCAL)

    assert second.cached
    known = [running.state(each.task_id, LOCAL) for each in (first, second)]
    assert known[0].traces == known[1].traces
    assert [state.cached for state in known] == [False, True]


@pytest.mark.parametrize(
    "other", [{"fresh": True}, {"source": "def run(x):\n    return 1 + x\n"}], ids=["fresh", "code"]
)
def test_what_is_not_known_is_evaluated(running: Service, other: dict[str, object]) -> None:
    worker = register(running)
    running.submit(submission(), LOCAL)
    do_all(running, worker)

    again = running.submit(submission(**other), LOCAL)  # type: ignore[arg-type]

    assert not again.cached
    assert len(do_all(running, worker)) == 1


def test_a_tenant_has_no_answer_from_another_tenants_results(running: Service) -> None:
    worker = register(running)
    running.submit(submission(), tenant(running, "alice"))
    do_all(running, worker)

    assert not running.submit(submission(), tenant(running, "bob")).cached


def test_a_tenant_sees_nothing_of_anothers_tasks(running: Service) -> None:
    alice, bob = tenant(running, "alice"), tenant(running, "bob")
    task = running.submit(submission(), alice).task_id

    for look in (running.state, running.cancel):
        with pytest.raises(RefusedError, match="no task"):
            look(task, bob)
    with pytest.raises(RefusedError, match="no task"):
        running.queue.events(task, bob.sees, 0)
    listed = running.queue.tasks("bob", state=None, definition=None, before=None, limit=9)
    assert listed == []


def test_tenants_take_turns(running: Service) -> None:
    callers = [tenant(running, name) for name in ("alice", "bob")]
    for number in range(3):
        running.submit(submission(name=f"a{number}"), callers[0])
    running.submit(submission(name="b"), callers[1])

    order = [each.solution.name[0] for each in do_all(running, register(running))]

    assert order[:2] == ["a", "b"]


def test_the_author_is_the_tenant(running: Service) -> None:
    running.submit(submission(), tenant(running, "alice"))

    grant = running.take(register(running))

    assert grant is not None
    assert grant.solution.author == "alice"


@pytest.mark.parametrize("name", ["local", "baseline", "..", "a/b", "", "x\n"])
def test_a_tenant_needs_a_name_of_its_own(running: Service, name: str) -> None:
    with pytest.raises(UsageError):
        running.tokens.add(name, ["submit"])


@pytest.mark.parametrize(
    ("quotas", "sentence"),
    [
        (Quotas(most_queued=1), "1 task of yours wait"),
        (Quotas(most_per_minute=1), "within a minute"),
        (Quotas(device_seconds_per_day=0.0), "of devices within a day"),
    ],
    ids=["queued", "rate", "device"],
)
def test_a_quota_is_a_refusal_that_says_when_to_come_again(
    running: Service, quotas: Quotas, sentence: str
) -> None:
    caller = tenant(running, "alice", quotas)

    if quotas.device_seconds_per_day:
        running.submit(submission(name="first"), caller)
    with pytest.raises(RefusedError, match=sentence) as refused:
        running.submit(submission(), caller)

    assert refused.value.status == 429
    assert refused.value.retry_after_s


def test_an_idempotency_key_brings_the_same_task(running: Service) -> None:
    first, again = (running.submit(submission(), LOCAL, "key") for _ in range(2))

    assert first.task_id == again.task_id
    with pytest.raises(RefusedError, match="another body"):
        running.submit(submission(name="other"), LOCAL, "key")


def test_what_no_worker_can_ever_run_is_refused(running: Service) -> None:
    register(running)

    with pytest.raises(RefusedError, match="no worker can ever run this: 'B200' is asked for"):
        running.submit(submission(hardware="B200"), LOCAL)


def test_what_nobody_can_run_now_says_for_whom_it_waits(running: Service) -> None:
    task = running.submit(submission(), LOCAL)

    waiting_for = running.state(task.task_id, LOCAL).waiting_for

    assert waiting_for == "a worker that can run it: none is here for any hardware"


def test_each_hardware_runs_what_is_asked_of_each(running: Service) -> None:
    workers = [register(running, name, hardware=name) for name in ("red", "blue")]
    task = running.submit(submission(hardware="each"), LOCAL)

    grants = [do_all(running, worker) for worker in workers]

    assert [len(each) for each in grants] == [1, 1]
    assert len(running.state(task.task_id, LOCAL).traces or ()) == 4


def test_a_batch_that_failed_on_a_device_goes_to_another(running: Service) -> None:
    first, other = register(running, "one"), register(running, "two")
    running.submit(submission(), LOCAL)
    grant = running.take(first)
    assert grant is not None

    running.release(grant.lease, messages.Release(reason="it broke", is_fault=True))

    assert running.take(first) is None
    assert running.take(other) is not None


def test_a_worker_of_another_major_version_is_told_why_it_gets_no_work(running: Service) -> None:
    with pytest.raises(RefusedError, match="install the same one"):
        register(running, version="99.0")


@pytest.mark.parametrize("stage", ["waiting", "leased"])
def test_a_task_is_cancelled_at_every_stage(running: Service, stage: str) -> None:
    task = running.submit(submission(), LOCAL).task_id
    worker = register(running)
    grant = running.take(worker) if stage == "leased" else None

    state = running.cancel(task, LOCAL)

    assert (state.status, state.outcome, state.error) == ("failed", "cancelled", "cancelled")
    assert running.take(worker) is None
    if grant is not None:
        assert not running.keep(grant.lease, messages.Beat()).is_held
        with pytest.raises(RefusedError):
            hand_in(running, grant)


def test_a_worker_that_comes_again_gives_back_what_it_held(running: Service) -> None:
    running.submit(submission(), LOCAL)
    assert running.take(register(running)) is not None

    assert running.take(register(running)) is not None


@pytest.mark.parametrize("change", ["definition", "solution", "workload"])
def test_a_trace_of_another_job_is_refused(running: Service, change: str) -> None:
    running.submit(submission(), LOCAL)
    grant = running.take(register(running))
    assert grant is not None
    trace = trace_of(grant)
    other = grant.workloads[1] if change == "workload" else "another"
    forged = trace.model_copy(update={change: other})

    with pytest.raises(RefusedError, match="another job"):
        running.finish(
            grant.lease, messages.WorkerResult(workload=trace.workload.uuid, trace=forged)
        )


def test_no_workloads_fail_the_task(running: Service) -> None:
    unknown = running.submit(submission(workload_uuids=["nobody"]), LOCAL)

    state = running.state(unknown.task_id, LOCAL)

    assert (state.status, state.outcome) == ("failed", "no_workloads")
    assert (state.error or "").startswith("No workloads found")
    assert "'nobody'" in (state.error or "")


def test_an_unknown_definition_is_refused_with_the_nearest(running: Service) -> None:
    given = submission()
    other = given.solution.model_copy(update={"definition": "incremen"})

    with pytest.raises(RefusedError, match=r"^Definition not found: incremen; did you mean"):
        running.submit(given.model_copy(update={"solution": other}), LOCAL)


@pytest.mark.parametrize("name", ["../up", "a\x1b[2J", "x" * 300, "new\nline", "nul\0"])
def test_a_name_that_can_be_no_file_is_refused(running: Service, name: str) -> None:
    with pytest.raises(RefusedError, match="cannot be a file's name"):
        running.submit(submission(name=name), LOCAL)


def test_results_are_in_the_dataset_once_though_the_server_died_between(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "dataset")
    store = tmp_path / "store.sqlite"
    first = service(TraceSet.from_path(root), database=SqliteDatabase(store))
    first.submit(submission(), LOCAL)
    do_all(first, register(first))
    with first.database.transaction() as say:
        say.change("UPDATE results SET is_recorded = 0")  # it died before it noted that
    first.close()

    second = service(TraceSet.from_path(root), database=SqliteDatabase(store))
    second.close()

    (file,) = (root / "traces").rglob("*.jsonl")
    assert len(file.read_text().splitlines()) == 1
    (written,) = (root / "solutions").rglob("*.json")
    assert json.loads(written.read_text())["name"] == written.stem


def test_a_result_that_was_not_recorded_is_recorded_by_the_next_server(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "dataset")
    store = tmp_path / "store.sqlite"
    first = service(TraceSet.from_path(root), database=SqliteDatabase(store))
    first._recorder.catch_up = lambda *_: None  # type: ignore[method-assign,misc]  # it dies before that
    first.submit(submission(), LOCAL)
    do_all(first, register(first))
    first.close()
    assert not list((root / "traces").rglob("*.jsonl"))

    service(TraceSet.from_path(root), database=SqliteDatabase(store)).close()

    (file,) = (root / "traces").rglob("*.jsonl")
    assert len(file.read_text().splitlines()) == 1


def test_the_store_holds_no_token(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    running = service(database=SqliteDatabase(store))
    token = running.tokens.add("alice", ["submit"])
    running.close()

    assert all(token.encode() not in file.read_bytes() for file in tmp_path.iterdir())
    assert store.stat().st_mode & 0o077 == 0


def test_a_revoked_token_counts_no_longer(running: Service) -> None:
    token = running.tokens.add("alice", ["submit"])
    (row,) = running.tokens.all()

    running.tokens.revoke(row["id"])

    assert running.tokens.caller(token) is None
    with pytest.raises(UsageError, match="no token"):
        running.tokens.revoke(row["id"])


def test_a_store_has_one_server(tmp_path: Path) -> None:
    first, second = (SqliteDatabase(tmp_path / "store.sqlite") for _ in range(2))

    with first.only_server(), pytest.raises(UsageError, match="another server"):
        second.only_server().__enter__()


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    database = SqliteDatabase(store)
    with database.transaction() as say:
        say.change("INSERT INTO versions VALUES (99)")
    database.close()

    with pytest.raises(UsageError, match="newer flashinfer-bench"):
        SqliteDatabase(store)


def test_a_database_has_one_server_and_a_lost_connection_is_made_anew(postgres: str) -> None:
    import psycopg

    first = open_store(emptied(postgres))
    with first.only_server():
        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND datname = current_database()"
            )
        with pytest.raises(psycopg.Error), first.reading() as say:
            say.value("SELECT 1")

        with first.reading() as say:
            assert say.value("SELECT 1") == 1
        with pytest.raises(UsageError, match="another server"):
            open_store(postgres).only_server().__enter__()


def test_a_database_that_is_not_there_is_an_error_without_its_password() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")

    with pytest.raises(StorageError) as refused:
        open_store("postgresql://fib:secret@127.0.0.1:1/none")

    assert "secret" not in str(refused.value)


def test_a_database_that_fails_for_a_while_ends_no_sweeping(
    running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def sweep() -> list[str]:
        asked.append(1)
        raise OSError("gone")

    monkeypatch.setattr(service_module, "_SWEEP_S", 0.01)
    monkeypatch.setattr(running.queue, "sweep", sweep)
    time.sleep(1.2)

    assert len(asked) > 1


def test_lines_of_the_log_are_json_with_the_tasks_id(
    running: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="flashinfer_bench")
    worker = register(running)
    task = running.submit(submission(), LOCAL).task_id
    do_all(running, worker)

    lines = [json.loads(JsonLogLine().format(record)) for record in caplog.records]

    assert {line["task"] for line in lines} == {task}
    assert "RUNTIME_ERROR with n=100" in lines[2]["message"]


@pytest.mark.parametrize("key", ["name", "author"])
def test_a_name_too_long_for_a_file_is_refused_before_it_stops_what_others_submit(
    key: str, tmp_path: Path
) -> None:
    root = write_dataset(tmp_path / "dataset")
    running = service(TraceSet.from_path(root))
    given = submission()

    def named(text: str) -> messages.Submission:
        solution = given.solution.model_copy(update={key: text})
        return given.model_copy(update={"solution": solution})

    with pytest.raises(RefusedError, match="cannot be a file's name"):
        running.submit(named("é" * 101), LOCAL)
    task = running.submit(named("é" * 100), LOCAL).task_id
    do_all(running, register(running))

    assert running.state(task, LOCAL).outcome == "evaluated"
    assert len(list((root / "traces").rglob("*.jsonl"))) == 1
    running.close()


def test_what_cannot_be_recorded_holds_up_nobody_else(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "dataset")
    store = tmp_path / "store.sqlite"
    running = service(TraceSet.from_path(root), database=SqliteDatabase(store))
    solution = submission().solution
    for author in ("ann", "ben"):
        given = solution.model_copy(update={"author": author, "name": author})
        running.submit(messages.Submission(solution=given), LOCAL)
    worker = register(running)
    for folder in ("solutions", "traces"):
        (root / folder).mkdir(exist_ok=True)
        (root / folder / "ann").write_text("no folder")

    grant = running.take(worker)
    assert grant is not None
    with pytest.raises(StorageError):
        hand_in(running, grant)
    do_all(running, worker)

    assert [each.name for each in (root / "traces").iterdir() if each.is_dir()] == ["ben"]
    for folder in ("solutions", "traces"):
        (root / folder / "ann").unlink()
    running.close()
    service(TraceSet.from_path(root), database=SqliteDatabase(store)).close()
    assert len(list((root / "traces" / "ann").rglob("*.jsonl"))) == 1


@pytest.mark.parametrize("where", ["content", "description", "definition"])
def test_half_a_character_is_refused(where: str, running: Service) -> None:
    document = json.loads(submission().to_json())
    holder = document["solution"]["sources"][0] if where == "content" else document["solution"]
    holder[where] = "\N{REPLACEMENT CHARACTER}"
    body = json.dumps(document).replace("\\ufffd", "\\ud800").encode()
    app.state.service, app.state.is_open = running, True
    app.state.only_own_names = False

    async def send() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.post(
                "/evaluate", content=body, headers={"Content-Type": "application/json"}
            )

    assert run_apart(send()).status_code == 422
