"""The service's MCP endpoint as programs use it: the official SDK's client, over HTTP, on a server process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="the service runs solutions")
pytest.importorskip("uvicorn", reason="the service's extra is not installed")
mcp = pytest.importorskip("mcp", reason="the extra [agents] is not installed")

from mcp.client.streamable_http import streamable_http_client  # noqa: E402
from mcp.shared._httpx_utils import create_mcp_http_client  # noqa: E402

from flashinfer_bench.agents.answers import compact_text, estimate_tokens  # noqa: E402
from tests.flow.service_processes import Place, place  # noqa: E402
from tests.loops import run_apart  # noqa: E402

WRONG = "def run(x):\n    return x + 2\n"
FITTING = "def run(x):\n    return x + 1\n"
SLOW = "import time\n\n\ndef run(x):\n    time.sleep(60)\n    return x + 1\n"
BUDGET = 2_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server with its own worker, which hears within a second that a task was cancelled."""
    with place(tmp_path_factory.mktemp("served")) as found:
        found.serve("--lease", "5")
        yield found


@contextlib.asynccontextmanager
async def connected(at: Place, token: str | None = None) -> AsyncIterator[Any]:
    """A client's session."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        create_mcp_http_client(headers=headers) as http,
        streamable_http_client(f"{at.url}/mcp", http_client=http) as (reading, writing),
        mcp.ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        await session.list_tools()  # from then on it compares answers with their schemas
        yield session


async def called(session: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; its structured answer, which fits the budget."""
    result = await session.call_tool(tool, arguments)
    answer: dict[str, Any] = result.structured_content
    assert estimate_tokens(compact_text(answer)) <= BUDGET
    return answer


def test_an_agent_comes_from_a_wrong_kernel_to_a_recorded_one(served: Place) -> None:
    lines: list[str] = []

    async def hear(_: float, __: float | None, message: str | None) -> None:
        lines.append(message or "")

    async def hour() -> dict[str, Any]:
        async with connected(served) as session:
            listed = await called(session, "list_definitions")
            name = listed["list"]["definitions"][0]["name"]
            shown = await called(session, "show", names=[name])
            wrong = await called(session, "submit", definition=name, code=WRONG)
            first = wrong["submit"]["jobs"][0]["failure"]["mismatches"][0]
            better = FITTING.replace("+ 1", f"+ {2 + first['expected'] - first['got']:.0f}")
            passed = await session.call_tool(
                "submit", {"definition": name, "code": better}, progress_callback=hear
            )
            task = passed.structured_content["submit"]["task"]
            again = await called(session, "task", task=task)
            listed_tasks = await called(session, "tasks")
            return {
                "shown": shown,
                "statuses": [
                    [each["status"] for each in answer["submit"]["jobs"]]
                    for answer in (wrong, passed.structured_content, again)
                ],
                "tasks": [each["task"] for each in listed_tasks["tasks"]],
                "task": task,
            }

    said = run_apart(hour())

    right = ["PASSED"] * 2
    assert said["statuses"] == [["INCORRECT_NUMERICAL"] * 2, right, right]
    assert said["shown"]["shown"][0]["reference"]
    assert said["task"] in said["tasks"]
    assert any(each.startswith("PASSED") for each in lines)
    assert "PASSED" in {line["evaluation"]["status"] for line in served.recorded()}  # type: ignore[index]


@pytest.mark.full  # over stdio: test_mcp
def test_whatever_is_wrong_is_an_answer_that_says_so(served: Place) -> None:
    whole = {"name": "a", "definition": "increment"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("submit", {"definition": "incremen", "code": FITTING}),
        ("submit", {"definition": "increment"}),
        ("submit", {"code": FITTING}),
        ("submit", {"definition": "increment", "code": FITTING, "solution": whole}),
        ("submit", {"solution": whole}),
        ("submit", {"definition": "increment", "kernel": "/etc/passwd"}),
        ("submit", {"definition": "increment", "code": FITTING, "name": "../up"}),
        ("submit", {"definition": "increment", "code": FITTING, "workloads": ["nobody"]}),
        ("show", {"names": ["mine"]}),
        ("task", {"task": "none"}),
        ("task", {"task": "none", "wait": "long"}),
        ("check", {"definition": "increment", "code": FITTING}),
        ("more", {"handle": "a99"}),
    ]

    async def mistakes() -> list[Any]:
        async with connected(served) as session:
            return [await session.call_tool(name, arguments) for name, arguments in calls]

    answers = run_apart(mistakes())

    assert [each.is_error for each in answers] == [True] * len(calls)
    assert {each.structured_content["error"]["kind"] for each in answers} == {"usage"}
    said = [each.structured_content["error"]["message"] for each in answers]
    assert "did you mean 'increment'?" in said[0]
    assert not [each for each in said if "Traceback" in each]


async def begin_and_cancel(session: Any, code: str) -> None:
    """Submit a kernel, and cancel the call once it runs."""
    started = anyio.Event()

    async def hear(_: float, __: float | None, message: str | None) -> None:
        if (message or "").startswith("started"):
            started.set()

    async def submit() -> None:
        arguments = {"definition": "increment", "code": code}
        await session.call_tool("submit", arguments, progress_callback=hear)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(submit)
        await started.wait()
        tasks.cancel_scope.cancel()


def test_cancelling_a_call_ends_its_task_and_its_kernel(served: Place) -> None:
    async def cancelled() -> list[str | None]:
        async with connected(served) as session:
            await begin_and_cancel(session, SLOW)
            following = f"{FITTING}# the device is free for it\n"
            await called(session, "submit", definition="increment", code=following)
            listed = await called(session, "tasks", limit=2)
            return [each["outcome"] for each in listed["tasks"]]

    outcomes = run_apart(cancelled())

    assert outcomes == ["evaluated", "cancelled"]
