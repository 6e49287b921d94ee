"""The routes, over HTTP within this process: what they answer, what they refuse and in which words."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from flashinfer_bench.serve import messages
from flashinfer_bench.serve.app import make_app
from flashinfer_bench.serve.service import Service
from tests.loops import run_apart
from tests.unit.serve.parts import KEY, capability, do_all, register, service, submission

Ask = Callable[..., httpx2.Response]
SCHEMA = Path(__file__).parents[3] / "docs" / "openapi.json"


@pytest.fixture
def running() -> Iterator[Service]:
    made = service(sizes=(100, 200))
    yield made
    made.close()


app = make_app()


def with_client(running: Service, do: Callable[[httpx2.AsyncClient], Awaitable[Any]]) -> Any:
    app.state.only_own_names = False
    app.state.service = running
    app.state.is_open = True

    async def act() -> Any:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            return await do(client)

    return run_apart(act())


@pytest.fixture
def ask(running: Service) -> Ask:
    def once(method: str, path: str, *, token: str | None = None, **given: Any) -> httpx2.Response:
        if token is not None:
            given["headers"] = {
                **given.get("headers", {}),
                "Authorization": f"Bearer {token}",
            }
        return with_client(running, lambda client: client.request(method, path, **given))

    return once


def body(**options: Any) -> dict[str, Any]:
    return json.loads(submission(**options).to_json())


def test_a_session_as_the_existing_systems_clients_have_it(running: Service, ask: Ask) -> None:
    worker = register(running)
    (definition,) = ask("GET", "/definitions").json()
    workloads = ask("GET", f"/definitions/{definition['name']}/workloads").json()
    told = ask("POST", "/evaluate", json=body(workload_uuids=[workloads[1]["uuid"]])).json()
    before = ask("GET", f"/tasks/{told['task_id']}").json()
    do_all(running, worker)

    after = ask("GET", f"/tasks/{told['task_id']}", params={"timeout": 30}).json()

    assert set(definition) == {"name", "description"}
    assert len(told["task_id"]) == 32
    assert (before["status"], before["traces"], before["error"]) == ("pending", None, None)
    assert (after["status"], after["definition"]) == ("completed", definition["name"])
    assert after["solution"] == told["normalized_solution_name"]
    assert [trace["workload"] for trace in after["traces"]] == [workloads[1]]
    assert ask("GET", f"/workloads/{workloads[1]['uuid']}").json() == workloads[1]


def test_several_tasks_come_in_the_order_asked_with_duplicates(running: Service, ask: Ask) -> None:
    ids = [
        ask("POST", "/evaluate", json=body(name=f"s{number}")).json()["task_id"]
        for number in range(2)
    ]
    asked = [ids[1], ids[0], ids[1]]

    states = ask("POST", "/tasks/batch", json={"task_ids": asked}).json()

    assert [state["task_id"] for state in states] == asked
    assert ask("POST", "/tasks/batch", json={"task_ids": []}).json() == []
    unknown = ask("POST", "/tasks/batch", json={"task_ids": [ids[0], "nobody"]})
    assert (unknown.status_code, "detail" in unknown.json()) == (404, True)


def test_a_poll_ends_when_its_task_does(running: Service, ask: Ask) -> None:
    worker = register(running)
    task = ask("POST", "/evaluate", json=body()).json()["task_id"]
    working = threading.Timer(0.3, lambda: do_all(running, worker))
    working.start()
    began_s = time.monotonic()

    state = ask("GET", f"/tasks/{task}", params={"timeout": 30}).json()

    assert state["status"] == "completed"
    assert 0.2 < time.monotonic() - began_s < 5
    working.join()  # it ends a little after what it tells


def test_a_poll_that_is_over_says_how_far_the_task_is(running: Service, ask: Ask) -> None:
    task = ask("POST", "/evaluate", json=body()).json()["task_id"]

    assert ask("GET", f"/tasks/{task}", params={"timeout": 0.05}).json()["status"] == "pending"


def test_a_thousand_polls_keep_nobody_waiting(running: Service) -> None:
    task = running.submit(submission(), _local()).task_id

    async def act(client: httpx2.AsyncClient) -> float:
        polls = [
            asyncio.create_task(client.get(f"/tasks/{task}", params={"timeout": 60}))
            for _ in range(1000)
        ]
        while sum(len(bells) for bells in running.changes._bells.values()) < 1000:
            await asyncio.sleep(0.01)
        began_s = time.monotonic()
        await client.get("/healthz")
        took_s = time.monotonic() - began_s
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        return took_s

    assert (
        with_client(running, act) < 10
    )  # they wait for a minute; benchmarks/service.py says how much longer


def test_many_who_wait_for_one_task_are_told_by_few_looks(
    running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = register(running)
    task = running.submit(submission(), _local()).task_id
    looks, look = [], running.state

    def counted(task_id: str, caller: Any) -> messages.TaskState:
        looks.append(task_id)
        return look(task_id, caller)

    async def act(client: httpx2.AsyncClient) -> list[str]:
        polls = [
            asyncio.create_task(client.get(f"/tasks/{task}", params={"timeout": 60}))
            for _ in range(300)
        ]
        while sum(len(bells) for bells in running.changes._bells.values()) < 300:
            await asyncio.sleep(0.01)
        await client.get("/healthz")  # the first looks are over
        looks.clear()
        await asyncio.to_thread(do_all, running, worker)
        return [(await poll).json()["status"] for poll in polls]

    monkeypatch.setattr(running, "state", counted)
    assert with_client(running, act) == ["completed"] * 300
    assert len(looks) < 100  # it changes four times


def test_events_are_numbered_and_go_on_after_the_last(running: Service, ask: Ask) -> None:
    worker = register(running)
    task = ask("POST", "/evaluate", json=body()).json()["task_id"]
    do_all(running, worker)

    text = ask("GET", f"/tasks/{task}/events").text
    rest = ask("GET", f"/tasks/{task}/events", headers={"Last-Event-ID": "3"}).text

    kinds = [line[7:] for line in text.splitlines() if line.startswith("event: ")]
    assert kinds == ["queued", "leased", "finished", "finished", "completed"]
    assert rest == text[text.index("id: 4") :]


def test_closing_a_stream_changes_nothing(running: Service) -> None:
    task = running.submit(submission(), _local()).task_id

    async def act(client: httpx2.AsyncClient) -> None:
        poll = asyncio.create_task(client.get(f"/tasks/{task}", params={"timeout": 60}))
        while not running.changes._bells:
            await asyncio.sleep(0.01)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)

    with_client(running, act)

    assert not running.changes._bells
    assert running.state(task, _local()).status == "pending"


HOSTILE: dict[str, dict[str, Any]] = {
    "no JSON": {"content": b"{", "headers": {"Content-Type": "application/json"}},
    "no UTF-8": {"content": b"\xff\xfe", "headers": {"Content-Type": "application/json"}},
    "deep": {"content": b"[" * 100_000, "headers": {"Content-Type": "application/json"}},
    "digits": {
        "content": b'{"fresh":' + b"9" * 10_000 + b"}",
        "headers": {"Content-Type": "application/json"},
    },
    "surrogate": {
        "content": b'{"solution": "\\ud800"}',
        "headers": {"Content-Type": "application/json"},
    },
    "surrogate in a name": {
        "content": json.dumps(body()).replace("candidate", "\\ud800").encode(),
        "headers": {"Content-Type": "application/json"},
    },
    "another type": {"content": json.dumps(body()), "headers": {"Content-Type": "text/plain"}},
    "nothing": {},
    "a list": {"json": []},
    "an unknown key": {"json": {**body(), "sudo": True}},
    "too large": {"content": b"x" * (3 << 20), "headers": {"Content-Type": "application/json"}},
    "a key with spaces": {"json": body(), "headers": {"Idempotency-Key": "a b"}},
    "a long key": {"json": body(), "headers": {"Idempotency-Key": "a" * 1000}},
    "a uuid that is a number": {"json": {**body(), "workload_uuids": [5]}},
    "many files": {
        "json": {
            "solution": {
                **body()["solution"],
                "sources": [
                    *body()["solution"]["sources"],
                    *({"path": f"f{number}", "content": ""} for number in range(64)),
                ],
            }
        }
    },
}


@pytest.mark.parametrize("given", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_body_is_refused_with_a_sentence(
    given: dict[str, Any], running: Service, ask: Ask
) -> None:
    answer = ask("POST", "/evaluate", **given)

    assert 400 <= answer.status_code < 500, answer.text
    assert isinstance(answer.json()["detail"], str)
    assert running.queue.waiting_count() == 0


@pytest.mark.parametrize(
    "path",
    [
        "/tasks/nobody",
        "/tasks/" + "x" * 5000,
        "/tasks/%00",
        "/tasks/..%2f..%2fetc",
        "/tasks/x'%20OR%201=1--",
        "/tasks/%ff",
        "/tasks/5?timeout=-1",
        "/tasks/5?timeout=4000",
        "/tasks/5?timeout=nan",
        "/tasks/5?timeout=soon",
        "/tasks?limit=0",
        "/tasks?limit=99999999999999999999",
        "/tasks?before=99999999999999999999999",
        "/tasks?status=%F0%9F%92%A9",
        "/definitions/nobody",
        "/definitions/nobody/workloads",
        "/workloads/nobody",
        "/nowhere",
    ],
)
def test_a_hostile_path_is_refused_with_a_sentence(path: str, ask: Ask) -> None:
    answer = ask("GET", path)

    assert 400 <= answer.status_code < 500
    assert isinstance(answer.json()["detail"], str)
    assert len(answer.text) < 1000


@pytest.mark.parametrize(
    "headers",
    [
        {"Last-Event-ID": "first"},
        {"Last-Event-ID": "-1"},
        {"Last-Event-ID": "9" * 50},
        {"Authorization": "Basic eDp5"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer nobody"},
        {"Authorization": "Bearer " + "x" * 5000},
        {"Authorization": b"Bearer \xff\xfe"},
    ],
    ids=str,
)
def test_a_hostile_header_is_refused_with_a_sentence(
    headers: dict[str, Any], running: Service, ask: Ask
) -> None:
    task = running.submit(submission(), _local()).task_id

    answer = ask("GET", f"/tasks/{task}/events", headers=headers)

    assert 400 <= answer.status_code < 500
    assert isinstance(answer.json()["detail"], str)


def routes() -> list[tuple[str, str]]:
    schema = app.openapi()
    return [
        (method.upper(), path)
        for path, methods in schema["paths"].items()
        for method in methods
        if path not in {"/", "/healthz", "/readyz"}
    ]


@pytest.mark.parametrize(("method", "path"), routes())
def test_without_a_token_nobody_does_anything_once_one_was_made(
    method: str, path: str, running: Service, ask: Ask
) -> None:
    running.tokens.add("alice", ["submit"])
    named = path.replace("{", "").replace("}", "")

    answer = ask(method, named, json={})

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"


NEEDED = {
    "admin": ["/shutdown", "/forgive", "/metrics"],
    "worker": ["/workers", "/leases"],
}


@pytest.mark.parametrize(("method", "path"), routes())
def test_a_token_does_what_its_scope_says(
    method: str, path: str, running: Service, ask: Ask
) -> None:
    token = running.tokens.add("alice", ["submit"])
    is_others = any(
        path.startswith(each) and path != "/workloads/{uuid}"
        for each in (*NEEDED["admin"], *NEEDED["worker"])
    )
    named = path.replace("{", "").replace("}", "")

    answer = ask(method, named, token=token, json=body() if path == "/evaluate" else None)

    assert (answer.status_code == 403) is is_others, answer.text


def test_nothing_of_another_tenant_is_in_any_byte(running: Service, ask: Ask) -> None:
    alice, bob = (running.tokens.add(name, ["submit"]) for name in ("alice", "bob"))
    secret = "def run(x):\n    return x + 1  # a secret of alice\n"
    worker = register(running)
    task = ask("POST", "/evaluate", token=alice, json=body(source=secret, name="hidden")).json()
    do_all(running, worker)

    answers = [
        ask(method, path.replace("{task_id}", task["task_id"]), token=bob)
        for method, path in routes()
        if "batch" not in path
    ]
    answers.append(ask("POST", "/tasks/batch", token=bob, json={"task_ids": [task["task_id"]]}))

    told = "".join(answer.text for answer in answers)
    assert "secret" not in told
    assert "hidden" not in told
    assert "alice" not in told


def test_who_may_submit_is_no_worker_and_no_operator(running: Service, ask: Ask) -> None:
    registration = messages.Registration(name="mine", capability=capability(), key=KEY.public)

    answers = [
        ask("POST", "/workers", json=json.loads(registration.to_json())),
        ask("POST", "/shutdown"),
        ask("POST", "/forgive?device=box/cpu"),
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 403]


def test_a_page_of_the_web_cannot_reach_a_server_that_needs_no_token(running: Service) -> None:
    app.state.service = running
    app.state.is_open = app.state.only_own_names = True

    async def act() -> list[int]:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport) as client:
            urls = ("http://evil.example/health", "http://127.0.0.1:8000/health")
            return [(await client.get(url)).status_code for url in urls]

    assert run_apart(act()) == [421, 200]


def test_a_server_that_is_about_to_end_takes_nothing_and_says_when_to_come_again(
    running: Service, ask: Ask
) -> None:
    running.is_draining = True

    answer = ask("POST", "/evaluate", json=body())

    assert answer.status_code == ask("GET", "/readyz").status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert ask("GET", "/health").json()["status"] == "draining"


def test_the_overview_names_every_route(ask: Ask) -> None:
    overview = ask("GET", "/").json()

    schema = app.openapi()
    known = {
        (method.upper(), path) for path, methods in schema["paths"].items() for method in methods
    }
    assert {(each["method"], each["path"]) for each in overview["endpoints"]} == known
    assert {"name", "version", "docs"} < overview.keys()


def test_the_document_of_the_routes_is_what_they_are() -> None:
    schema = copy.deepcopy(app.openapi())
    schema["info"]["version"] = "0"

    assert json.loads(SCHEMA.read_text()) == schema, "run `make docs`"


def test_every_status_that_is_answered_is_in_the_document(running: Service, ask: Ask) -> None:
    schema = app.openapi()["paths"]
    worker = register(running)
    task = ask("POST", "/evaluate", json=body()).json()["task_id"]
    do_all(running, worker)
    asked = [
        ("GET", "/", "/"),
        ("GET", "/definitions", "/definitions"),
        ("GET", "/definitions/{name}", "/definitions/increment"),
        ("GET", "/definitions/{name}", "/definitions/nobody"),
        ("GET", "/tasks/{task_id}", f"/tasks/{task}"),
        ("GET", "/tasks/{task_id}", "/tasks/nobody"),
        ("GET", "/tasks/{task_id}", f"/tasks/{task}?timeout=5000"),
        ("GET", "/tasks", "/tasks"),
        ("GET", "/health", "/health"),
        ("POST", "/evaluate", "/evaluate"),
        ("POST", "/shutdown", "/shutdown"),
        ("POST", "/tasks/{task_id}/cancel", f"/tasks/{task}/cancel"),
    ]

    for method, path, url in asked:
        answer = ask(method, url)
        documented = schema[path][method.lower()]["responses"][str(answer.status_code)]
        content = documented["content"]["application/json"]["schema"]
        name = content.get("$ref", "").rpartition("/")[2]
        assert name or content["type"] == "array"
        if name and hasattr(messages, name):
            getattr(messages, name).model_validate_json(answer.content)


def _local() -> Any:
    from flashinfer_bench.serve.tokens import LOCAL

    return LOCAL


def test_the_name_of_the_servers_own_worker_is_for_that_one(running: Service, ask: Ask) -> None:
    given = json.loads(
        messages.Registration(name="server", capability=capability(), key=KEY.public).to_json()
    )
    others = running.tokens.add("box", ["worker"])
    said = ask("POST", "/workers", json=given, token=others)
    own = ask("POST", "/workers", json=given, token=running.worker_token)

    assert said.status_code == 409
    assert "give this one another name with --name" in said.json()["detail"]
    assert own.status_code == 200
