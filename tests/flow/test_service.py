"""The service as people use it: real servers, real workers, ends of every kind."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashinfer_bench.cli.document_schemas import document_schema
from flashinfer_bench.cli.measure.kernel_files import Hints, solution_from
from flashinfer_bench.serve.scheduler import Scheduler
from tests.commands import call
from tests.flow.kernels import HONEST, dataset, quick, slow, wait_for
from tests.flow.service_processes import (
    Place,
    kill,
    own_worker,
    place,
)
from tests.golden.test_document_schemas import faults
from tests.loops import run_apart
from tests.postgres import own_postgres

pytest.importorskip("uvicorn", reason="the service's extra is not installed")
pytest.importorskip("fastapi", reason="the service's extra is not installed")
httpx2 = pytest.importorskip("httpx2", reason="the service's extra is not installed")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server with its own worker."""
    with place(tmp_path_factory.mktemp("served")) as found:
        found.serve()
        yield found


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    with place(tmp_path) as found:
        yield found


@pytest.fixture
def postgres() -> Iterator[str]:
    with own_postgres() as address:
        yield address


def submit(at: Place, file: Path, *options: str) -> dict[str, object]:
    done = call("submit", file, "--server", at.url, "--json", *options)
    return json.loads(done.stdout)


def kernel(folder: Path, source: str = HONEST) -> Path:
    file = folder / "kernel.py"
    file.write_text(source)
    return file


def test_a_kernel_is_submitted_and_its_page_shown(served: Place, tmp_path: Path) -> None:
    file = kernel(tmp_path)

    done = call("submit", file, "--server", served.url, "--definition", "increment")

    assert done.returncode == 0, done.stderr
    assert "2 of 2 workloads passed" in done.stdout
    assert "taken by" in done.stderr
    assert "PASSED increment kernel [n=100]" in done.stderr


def test_a_known_answer_comes_at_once_and_fresh_has_other_inputs(
    served: Place, tmp_path: Path
) -> None:
    file = kernel(tmp_path, f"{HONEST}# known\n")
    with served.client() as client:
        first = submit(served, file, "--definition", "increment")["submit"]
        again = submit(served, file, "--definition", "increment")["submit"]
        fresh = submit(served, file, "--definition", "increment", "--fresh")["submit"]
        states = [client.task(each["task"]) for each in (first, again, fresh)]  # type: ignore[index]
        solution = solution_from(file, client.definition("increment"), Hints())
        client.wait(client.submit(solution).task_id, most_s=60)
        took_s = []
        for _ in range(3):
            began_s = time.monotonic()
            known = client.submit(solution)
            took_s.append(time.monotonic() - began_s)

    seeds = [
        [trace.evaluation.provenance.seed for trace in state.traces or ()]  # type: ignore[union-attr]
        for state in states
    ]
    assert [state.cached for state in states] == [False, True, False]
    assert seeds[0] == seeds[1]
    assert not set(seeds[0]) & set(seeds[2])
    assert known.cached
    assert min(took_s) < 0.2


def test_a_solution_that_fails_exits_with_1_and_shows_why(served: Place, tmp_path: Path) -> None:
    file = kernel(tmp_path, "def run(x):\n    raise ValueError('nothing doing')\n")

    done = call("submit", file, "--server", served.url, "--definition", "increment")

    assert done.returncode == 1
    assert "ValueError: nothing doing" in done.stdout
    with served.client() as client:
        (newest,) = client.tasks(limit=1).tasks
    assert (newest.status, newest.outcome) == ("completed", "evaluated")


def test_events_tell_how_far_a_task_is(served: Place, tmp_path: Path) -> None:
    file = kernel(tmp_path, f"{HONEST}# watched\n")

    done = call("submit", file, "--server", served.url, "--definition", "increment", "--json")

    task = json.loads(done.stdout)["submit"]["task"]
    with served.client() as client:
        events = list(client.events(task))
    about = {event.kind: event.data for event in events}
    told = [event.kind for event in events if event.kind not in {"building", "waiting"}]
    each = ["started", "built", "checked", "trial", "finished"]
    assert told == ["queued", "leased", *each, *each, "completed"]
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert about["queued"]["place"] == 1
    assert about["leased"]["attempt"] == 1
    assert about["leased"]["hardware"]
    assert about["trial"] == {"trial": "1", "trials": "1"}
    assert "trial 1 of 1" in done.stderr


def test_tasks_and_cancel(served: Place, tmp_path: Path) -> None:
    file = kernel(tmp_path, "import time\ndef run(x):\n    time.sleep(9)\n    return x + 1\n")
    told = submit(served, file, "--definition", "increment", "--no-wait")["submit"]
    task = told["task"]  # type: ignore[index]
    wait_for(lambda: task in call("tasks", "--server", served.url, "--status", "running").stdout)
    began_s = time.monotonic()

    done = call("cancel", task, "--server", served.url)
    after = submit(served, kernel(tmp_path, f"{HONEST}# after\n"), "--definition", "increment")

    assert (done.returncode, done.stdout) == (0, f"task {task}: cancelled\n")
    assert after["exit_code"] == 0
    assert time.monotonic() - began_s < 30
    listed = json.loads(call("tasks", "--server", served.url, "--json").stdout)["tasks"]
    assert {each["task"]: each["outcome"] for each in listed}[task] == "cancelled"


def test_an_answer_does_not_wait_for_an_acknowledgement(served: Place) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    took_s = []
    for _ in range(20):
        began_s = time.monotonic()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        took_s.append(time.monotonic() - began_s)
    connection.close()

    assert min(took_s) < 0.03  # 0.04 where the kernel holds the second packet of an answer back


def test_documents_are_what_their_schemas_say(served: Place, here: Place, tmp_path: Path) -> None:
    file, server = kernel(tmp_path, f"{HONEST}# documented\n"), ("--server", served.url)
    store = ("--store", here.store)
    serving = here.start(
        *("serve", "--local", str(here.dataset), "--store", here.store),
        *("--no-worker", "--port", "0", "--json"),
    )
    assert serving.stdout is not None
    told = "".join(iter(serving.stdout.readline, "}\n")) + "}"
    submitted = call("submit", file, *server, "--definition", "increment", "--json")
    task = json.loads(submitted.stdout)["submit"]["task"]
    documents = {
        "serve": told,
        "submit": submitted.stdout,
        "tasks": call("tasks", *server, "--json").stdout,
        "cancel": call("cancel", task, *server, "--json").stdout,
        "tokens-add": call("tokens", "add", "alice", *store, "--json").stdout,
        "tokens-list": call("tokens", "list", *store, "--json").stdout,
    }
    (token,) = json.loads(documents["tokens-list"])["tokens"]
    documents["tokens-revoke"] = call("tokens", "revoke", token["id"], *store, "--json").stdout

    for name, text in documents.items():
        schema = document_schema(name)
        assert list(faults(json.loads(text), schema, schema, name)) == []


def test_reports_work_on_what_was_submitted(served: Place, tmp_path: Path) -> None:
    submit(served, kernel(tmp_path, f"{HONEST}# reported\n"), "--definition", "increment")

    done = call("report", "summary", "--local", served.dataset)

    assert done.returncode == 0
    assert "Authors against the reference" in done.stdout
    assert "submit" in done.stdout


def test_a_server_that_is_not_there_is_an_error_that_says_how_to_start_one(tmp_path: Path) -> None:
    file = kernel(tmp_path)

    done = call("submit", file, "--server", "http://127.0.0.1:9", "--definition", "increment")

    assert done.returncode == 4
    assert "does not answer" in done.stderr
    assert "`flashinfer-bench serve` starts a server" in done.stderr


def test_two_servers_of_one_store_are_one_too_many(served: Place) -> None:
    second = served.start(
        *("serve", "--local", str(served.dataset), "--store", served.store, "--port", "0"),
        "--no-worker",
    )

    assert second.wait(60) == 2
    assert "another server runs" in served.logs()


def test_an_address_that_others_reach_needs_a_token(here: Place) -> None:
    options = ("--local", str(here.dataset), "--store", here.store, "--host", "0.0.0.0")

    process = here.start("serve", *options, "--port", "0", "--no-worker")

    assert process.wait(60) == 2
    assert "no token was made: `flashinfer-bench tokens add NAME" in here.logs()


def test_tenants_with_tokens_and_a_worker_of_another_machine(here: Place, tmp_path: Path) -> None:
    store = ("--store", here.store)
    files = {}
    for name, scope in (("alice", "submit"), ("bob", "submit"), ("box", "worker")):
        made = call("tokens", "add", name, "--scopes", scope, *store)
        files[name] = tmp_path / f"{name}.token"
        files[name].write_text(made.stdout)
    here.serve("--host", "0.0.0.0", "--no-worker")
    here.url = here.url.replace("0.0.0.0", "127.0.0.1")
    here.work("--token-file", str(files["box"]), "--name", "box")
    file = kernel(tmp_path, f"{HONEST}# a secret of alice\n")

    with_token = ("--token-file", str(files["alice"]))
    told = submit(here, file, "--definition", "increment", *with_token)
    without = call("tasks", "--server", here.url)
    of_bob = call("tasks", "--server", here.url, "--token-file", files["bob"])

    assert told["exit_code"] == 0
    assert {line["solution"] for line in here.recorded()} == {told["submit"]["solution"]}  # type: ignore[index]
    assert (here.dataset / "solutions" / "alice").is_dir()
    assert without.returncode == 2
    assert "needs a token" in without.stderr
    assert of_bob.stdout.strip() == "no tasks"


def test_sigterm_finishes_what_is_worked_at_and_the_next_server_does_the_rest(here: Place) -> None:
    server = here.serve()
    with here.client() as client:
        ids = [client.submit(slow(f"s{number}", 0.02)).task_id for number in range(3)]
        wait_for(lambda: client.task(ids[0]).status == "running")

        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0, here.logs()
        assert len(here.recorded()) in {2, 4, 6}
        here.serve()
        states = [client.wait(task, most_s=90) for task in ids]

    assert [state.status for state in states] == ["completed"] * 3
    wait_for(
        lambda: len(here.keys()) >= 6
    )  # seen at the wrong moment, a task ends before they are written
    assert len(here.keys()) == len(set(here.keys())) == 6


@pytest.mark.parametrize(
    ("database", "victims", "tasks"),
    [
        pytest.param("sqlite", ["server", "worker"], 6, id="sqlite"),
        pytest.param("postgres", ["server", "worker"], 4, id="postgres"),
        pytest.param("sqlite", ["server"] * 2, 6, id="server", marks=pytest.mark.full),
        pytest.param("sqlite", ["worker"] * 2, 6, id="worker", marks=pytest.mark.full),
        pytest.param("sqlite", ["server", "worker"] * 10, 40, id="twenty", marks=pytest.mark.full),
    ],
)
def test_kill_9_loses_nothing_and_records_nothing_twice(
    here: Place, request: pytest.FixtureRequest, database: str, victims: list[str], tasks: int
) -> None:
    if database == "postgres":
        here.database = request.getfixturevalue("postgres")
    randomly = random.Random(len(victims))
    server = here.serve("--lease", "5s")
    with here.client() as client:
        ids = [client.submit(slow(f"s{number}", 0.02)).task_id for number in range(tasks)]
        for victim in victims:
            time.sleep(randomly.uniform(0.2, 6.0))
            if victim == "server":
                kill(server)
                server = here.serve("--lease", "5s")
            else:
                wait_for(lambda at=server: own_worker(at))
                kill(own_worker(server))

        states = [client.wait(task, most_s=240) for task in ids]

    assert [state.status for state in states] == ["completed"] * tasks, here.logs()
    wait_for(
        lambda: len(here.keys()) >= 2 * tasks
    )  # seen at the wrong moment, a task ends before they are written
    assert len(here.keys()) == len(set(here.keys())) == 2 * tasks
    assert all(len(state.traces or ()) == 2 for state in states)


def test_programs_drive_the_app_within_their_own_process() -> None:
    scheduler = Scheduler(trace_set=dataset(sizes=(100,)), config=quick(), devices=["cpu"])

    from flashinfer_bench.serve.app import init_app

    async def act() -> dict[str, object]:
        transport = httpx2.ASGITransport(app=init_app(scheduler))
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            body = {"solution": json.loads(slow("slow", 0.02).to_json())}
            told = (await client.post("/evaluate", json=body)).json()
            answer = await client.get(f"/tasks/{told['task_id']}", params={"timeout": 60})
            return {**answer.json(), "health": (await client.get("/health")).json()}

    try:
        state = run_apart(act())
    finally:
        scheduler.shutdown()

    assert state["status"] == "completed"
    assert [trace["evaluation"]["status"] for trace in state["traces"]] == ["PASSED"]  # type: ignore[attr-defined]
    assert state["health"]["workers"][0]["device"] == "cpu"  # type: ignore[index]


def test_a_worker_that_is_silent_loses_its_lease_and_its_late_answer_is_refused(
    here: Place,
) -> None:
    here.serve("--no-worker", "--lease", "2s")
    token = here.folder / "worker.token"
    token.write_text(
        call("tokens", "add", "box", "--scopes", "worker", "--store", here.store).stdout
    )
    submitting = call("tokens", "add", "alice", "--store", here.store).stdout.strip()
    silent = here.work("--token-file", str(token), "--name", "silent")
    with here.client(submitting) as client:
        task = client.submit(slow("slow", 0.05)).task_id
        wait_for(lambda: client.task(task).status == "running")
        silent.send_signal(signal.SIGSTOP)
        here.work("--token-file", str(token), "--name", "lively")
        wait_for(lambda: kinds(here, task).count("leased") == 2)
        silent.send_signal(signal.SIGCONT)

        state = client.wait(task, most_s=90)

    assert state.status == "completed"
    assert "this lease is over" in here.logs()
    wait_for(
        lambda: len(here.keys()) >= 2
    )  # seen at the wrong moment, a task ends before they are written
    assert len(here.keys()) == len(set(here.keys())) == 2


def kinds(at: Place, task: str) -> list[str]:
    """What happened to a task so far."""
    asked = "SELECT kind FROM events WHERE task = ? ORDER BY number"
    with contextlib.closing(sqlite3.connect(at.store)) as store:
        return [kind for (kind,) in store.execute(asked, [task])]
