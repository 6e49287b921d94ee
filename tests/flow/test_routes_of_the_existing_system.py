"""The routes as clients of the existing system use them, through its own names, on both stores and a real worker."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from flashinfer_bench.data import Solution
from tests.flow.kernels import HONEST, INCREMENT, dataset, quick, slow, solution, wait_for
from tests.loops import run_apart
from tests.postgres import own_postgres

pytest.importorskip("torch", reason="running solutions needs torch")
pytest.importorskip("fastapi", reason="the service's extra is not installed")
httpx2 = pytest.importorskip("httpx2", reason="the service's extra is not installed")

WRONG = "def run(x):\n    return x + 2\n"
RAISES = "def run(x):\n    raise ValueError('nothing doing')\n"
BARE = INCREMENT.model_copy(update={"name": "bare"})
"""A definition without workloads."""


class Session:
    """What a client has: one app, asked over HTTP within this process."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, method: str, path: str, **given: Any) -> httpx2.Response:
        async def act() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self._app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, timeout=90, **given)

        return run_apart(act())

    def evaluate(self, given: Solution, **options: Any) -> dict[str, Any]:
        """Submit, and expect to be taken."""
        answer = self("POST", "/evaluate", json=request(given, **options))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def end(self, task: str) -> dict[str, Any]:
        """Wait for a task's end."""
        return self("GET", f"/tasks/{task}", params={"timeout": 60}).json()

    def uuids(self) -> list[str]:
        workloads = self("GET", "/definitions/increment/workloads").json()
        return [workload["uuid"] for workload in workloads]


def request(given: Solution, **options: Any) -> dict[str, Any]:
    return {"solution": json.loads(given.to_json()), **options}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def ask(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    from flashinfer_bench.serve.app import init_app
    from flashinfer_bench.serve.scheduler import Scheduler

    trace_set = dataset(sizes=(100, 200))
    trace_set.definitions[BARE.name] = BARE
    with contextlib.ExitStack() as ending:
        store = str(tmp_path_factory.mktemp("store") / "store.sqlite")
        if request.param == "postgres":
            store = ending.enter_context(own_postgres())
        scheduler = Scheduler(trace_set=trace_set, config=quick(), devices=["cpu"], store=store)
        ending.callback(scheduler.shutdown)
        yield Session(init_app(scheduler))


# What there is


def test_the_root_names_the_server_and_its_routes(ask: Session) -> None:
    answer = ask("GET", "/")

    assert answer.status_code == 200
    told = answer.json()
    assert {"name", "version", "endpoints"} <= told.keys()
    assert {"/evaluate", "/tasks/{task_id}", "/tasks/batch", "/health"} <= {
        each["path"] for each in told["endpoints"]
    }


def test_definitions_are_listed(ask: Session) -> None:
    answer = ask("GET", "/definitions")

    assert answer.status_code == 200
    assert [each["name"] for each in answer.json()] == ["increment", "bare"]


def test_a_definition_is_shown_whole(ask: Session) -> None:
    answer = ask("GET", "/definitions/increment")

    assert answer.status_code == 200
    assert answer.json() == json.loads(INCREMENT.to_json())


@pytest.mark.parametrize(
    "path", ["/definitions/nobody", "/definitions/nobody/workloads", "/workloads/nobody"]
)
def test_what_is_not_there_is_a_404(ask: Session, path: str) -> None:
    answer = ask("GET", path)

    assert answer.status_code == 404
    assert "nobody" in answer.json()["detail"]


def test_the_workloads_of_a_definition_are_listed(ask: Session) -> None:
    answer = ask("GET", "/definitions/increment/workloads")

    assert answer.status_code == 200
    assert [each["axes"] for each in answer.json()] == [{"n": 100}, {"n": 200}]


def test_a_definition_without_workloads_has_an_empty_list(ask: Session) -> None:
    assert ask("GET", "/definitions/bare/workloads").json() == []


def test_a_workload_is_found_by_its_uuid(ask: Session) -> None:
    uuid = ask.uuids()[1]

    answer = ask("GET", f"/workloads/{uuid}")

    assert answer.status_code == 200
    assert (answer.json()["uuid"], answer.json()["axes"]) == (uuid, {"n": 200})


# Submitting


def test_a_submission_gives_an_id_and_a_name_with_eight_digits_of_its_content(ask: Session) -> None:
    given = solution(HONEST, name="named")

    told = ask.evaluate(given)

    assert told["task_id"]
    assert told["normalized_solution_name"] == f"named_{given.legacy_hash()[:8]}"


def test_equal_content_has_an_equal_name_and_other_content_another(ask: Session) -> None:
    one, same, other = (
        ask.evaluate(solution(source, name="twin")) for source in (HONEST, HONEST, HONEST + "#\n")
    )

    assert one["normalized_solution_name"] == same["normalized_solution_name"]
    assert one["normalized_solution_name"] != other["normalized_solution_name"]
    assert one["task_id"] != same["task_id"]


def test_an_unknown_definition_is_a_400_that_names_it(ask: Session) -> None:
    answer = ask("POST", "/evaluate", json=request(solution(HONEST, definition="nobody")))

    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("Definition not found: nobody")


@pytest.mark.parametrize(
    "body", [{}, {"solution": {}}, {"solution": "text"}, [], {"solution": {"name": "x"}}]
)
def test_a_body_that_is_no_submission_is_refused(ask: Session, body: Any) -> None:
    answer = ask("POST", "/evaluate", json=body)

    assert answer.status_code == 422
    assert answer.json()["detail"]


# Tasks


def test_a_task_is_evaluated_on_all_workloads(ask: Session) -> None:
    given = solution(HONEST, name="whole")
    told = ask.evaluate(given)

    state = ask.end(told["task_id"])

    assert (state["task_id"], state["status"]) == (told["task_id"], "completed")
    assert (state["definition"], state["error"]) == ("increment", None)
    assert state["solution"] == told["normalized_solution_name"]
    assert [trace["workload"]["axes"]["n"] for trace in state["traces"]] == [100, 200]
    assert [trace["evaluation"]["status"] for trace in state["traces"]] == ["PASSED"] * 2
    assert {trace["solution"] for trace in state["traces"]} == {told["normalized_solution_name"]}


def test_only_the_workloads_that_are_named_are_run(ask: Session) -> None:
    uuid = ask.uuids()[1]

    told = ask.evaluate(solution(HONEST, name="one"), workload_uuids=[uuid])

    (trace,) = ask.end(told["task_id"])["traces"]
    assert trace["workload"]["uuid"] == uuid


@pytest.mark.parametrize("uuids", [None, []])
def test_no_uuids_are_all_workloads(ask: Session, uuids: list[str] | None) -> None:
    told = ask.evaluate(solution(HONEST, name="all"), workload_uuids=uuids)

    assert len(ask.end(told["task_id"])["traces"]) == 2


def test_a_definition_without_workloads_fails_the_task(ask: Session) -> None:
    told = ask.evaluate(solution(HONEST, definition="bare"))

    state = ask.end(told["task_id"])

    assert (state["status"], state["traces"]) == ("failed", None)
    assert state["error"].startswith("No workloads found")


def test_an_unknown_uuid_is_an_error_and_is_not_dropped(ask: Session) -> None:
    uuids = [ask.uuids()[0], "11111111-2222-3333-4444-555555555555"]
    told = ask.evaluate(solution(HONEST, name="lost"), workload_uuids=uuids)

    state = ask.end(told["task_id"])

    assert (state["status"], state["traces"]) == ("failed", None)
    assert "11111111-2222-3333-4444-555555555555" in state["error"]


@pytest.mark.parametrize(
    ("source", "status"),
    [(WRONG, "INCORRECT_NUMERICAL"), (RAISES, "RUNTIME_ERROR"), ("def run(x:\n", "COMPILE_ERROR")],
    ids=["wrong", "raises", "no Python"],
)
def test_completed_says_nothing_of_the_evaluations(ask: Session, source: str, status: str) -> None:
    state = ask.end(ask.evaluate(solution(source, name="bad"))["task_id"])

    assert (state["status"], state["error"]) == ("completed", None)
    assert [trace["evaluation"]["status"] for trace in state["traces"]] == [status] * 2


def test_an_unknown_task_is_a_404(ask: Session) -> None:
    answer = ask("GET", "/tasks/nobody")

    assert answer.status_code == 404
    assert "nobody" in answer.json()["detail"]


def test_a_task_is_pending_then_running_then_completed(ask: Session) -> None:
    first = ask.evaluate(slow("before", 0.05), fresh=True)["task_id"]
    second = ask.evaluate(slow("after", 0.02), fresh=True)["task_id"]
    wait_for(lambda: ask("GET", f"/tasks/{first}").json()["status"] == "running")
    waiting = ask("GET", f"/tasks/{second}").json()
    running = ask("GET", f"/tasks/{first}").json()

    ended = [ask.end(task) for task in (first, second)]

    assert (waiting["status"], waiting["traces"], waiting["error"]) == ("pending", None, None)
    assert (running["status"], running["traces"], running["error"]) == ("running", None, None)
    assert [state["status"] for state in ended] == ["completed"] * 2


@pytest.mark.parametrize("timeout", [0, 0.1])
def test_a_wait_that_is_over_says_how_far_the_task_is(ask: Session, timeout: float) -> None:
    task = ask.evaluate(slow("patient", 0.05), fresh=True)["task_id"]

    state = ask("GET", f"/tasks/{task}", params={"timeout": timeout})

    assert state.status_code == 200
    assert state.json()["status"] in {"pending", "running"}
    ask("POST", f"/tasks/{task}/cancel")


@pytest.mark.parametrize("timeout", [-1, 3601, "soon"])
def test_a_wait_is_of_0_to_3600_seconds(ask: Session, timeout: object) -> None:
    task = ask.evaluate(solution(HONEST, name="waited"))["task_id"]

    assert ask("GET", f"/tasks/{task}", params={"timeout": timeout}).status_code == 422
    body = {"task_ids": [task], "timeout": timeout}
    assert ask("POST", "/tasks/batch", json=body).status_code == 422


def test_the_longest_wait_ends_with_its_task(ask: Session) -> None:
    task = ask.evaluate(solution(HONEST, name="longest"), fresh=True)["task_id"]

    state = ask("GET", f"/tasks/{task}", params={"timeout": 3600}).json()

    assert state["status"] == "completed"


# Several


def test_several_tasks_are_awaited_and_come_in_the_order_asked(ask: Session) -> None:
    ids = [
        ask.evaluate(solution(f"{HONEST}# {number}\n", name=f"s{number}"))["task_id"]
        for number in range(3)
    ]
    asked = [ids[2], ids[0], ids[1]]

    states = ask("POST", "/tasks/batch", json={"task_ids": asked, "timeout": 60}).json()

    assert [state["task_id"] for state in states] == asked
    assert [state["status"] for state in states] == ["completed"] * 3


def test_a_task_that_is_named_twice_comes_twice(ask: Session) -> None:
    task = ask.evaluate(solution(HONEST, name="double"))["task_id"]

    states = ask("POST", "/tasks/batch", json={"task_ids": [task, task], "timeout": 60}).json()

    assert [state["task_id"] for state in states] == [task, task]
    assert states[0] == states[1]


def test_no_tasks_are_an_empty_list(ask: Session) -> None:
    answer = ask("POST", "/tasks/batch", json={"task_ids": []})

    assert (answer.status_code, answer.json()) == (200, [])


def test_one_unknown_task_is_a_404_for_all(ask: Session) -> None:
    task = ask.evaluate(solution(HONEST, name="known"))["task_id"]

    answer = ask("POST", "/tasks/batch", json={"task_ids": [task, "nobody"]})

    assert answer.status_code == 404
    assert "nobody" in answer.json()["detail"]


def test_several_tasks_without_a_timeout_are_not_awaited(ask: Session) -> None:
    ids = [ask.evaluate(slow(name, 0.05), fresh=True)["task_id"] for name in ("a", "b")]

    states = ask("POST", "/tasks/batch", json={"task_ids": ids}).json()

    assert {state["status"] for state in states} <= {"pending", "running"}
    for task in ids:
        ask("POST", f"/tasks/{task}/cancel")


# How it goes


def test_health_names_devices_and_how_much_waits(ask: Session) -> None:
    told = ask("GET", "/health").json()

    assert told["status"] == "ok"
    (worker,) = told["workers"]
    assert (worker["device"], worker["healthy"]) == ("cpu", True)
    assert told["queue_size"] >= 0


def test_what_waits_is_counted(ask: Session) -> None:
    ids = [ask.evaluate(slow(f"w{number}", 0.05), fresh=True)["task_id"] for number in range(4)]

    size = ask("GET", "/health").json()["queue_size"]

    assert size >= 2  # its worker may have taken two
    for task in ids:
        ask("POST", f"/tasks/{task}/cancel")


def test_shutdown_is_not_for_everybody(ask: Session) -> None:
    answer = ask("POST", "/shutdown")

    assert answer.status_code == 403
    assert ask("GET", "/health").json()["status"] == "ok"


def test_the_app_that_programs_import_is_the_one_that_serves(ask: Session) -> None:
    from flashinfer_bench.serve.app import app

    assert ask("GET", "/definitions").json() == Session(app)("GET", "/definitions").json()
