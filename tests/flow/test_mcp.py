"""The MCP server as programs use it: the official SDK's client, over stdio, on a process of its own."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

pytest.importorskip("torch", reason="the tools run solutions")
mcp = pytest.importorskip("mcp", reason="the extra [agents] is not installed")

from flashinfer_bench.agents.answers import compact_text, estimate_tokens  # noqa: E402
from tests.flow.kernels import write_dataset  # noqa: E402
from tests.loops import run_apart  # noqa: E402

WRONG = "def run(x):\n    return x + 2\n"
FITTING = "def run(x):\n    return x + 1\n"
SLOW = "import time\n\n\ndef run(x):\n    time.sleep(60)\n    return x + 1\n"
BUDGET = 2_000


@contextlib.asynccontextmanager
async def connected(dataset: Path, cache: Path) -> AsyncIterator[Any]:
    """A client of a server of its own."""
    server = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "flashinfer_bench", "mcp", "--local", str(dataset)],
        env={**os.environ, "FIB_CACHE_PATH": str(cache)},
    )
    async with (
        mcp.stdio_client(server) as (reading, writing),
        mcp.ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        await session.list_tools()  # from then on it compares answers with their schemas
        yield session


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    write_dataset(tmp_path / "dataset")
    return tmp_path / "dataset"


async def called(session: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; its structured answer, which fits the budget."""
    result = await session.call_tool(tool, arguments)
    answer: dict[str, Any] = result.structured_content
    assert estimate_tokens(compact_text(answer)) <= arguments.get("budget_tokens", BUDGET)
    assert result.content[0].text == compact_text(answer)
    return answer


def test_an_agent_comes_from_a_wrong_kernel_to_a_recorded_one(
    dataset: Path, tmp_path: Path
) -> None:
    async def hour() -> dict[str, Any]:
        async with connected(dataset, tmp_path / "cache") as session:
            said: dict[str, Any] = {"tools": (await session.list_tools()).tools}
            found = await called(session, "list_definitions")
            name = found["list"]["definitions"][0]["name"]
            said["shown"] = await called(session, "show", names=[name])
            wrong = await called(session, "check", definition=name, code=WRONG)
            first = wrong["check"]["jobs"][0]["failure"]["mismatches"][0]
            offset = (
                first["expected"] - first["got"]
            )  # all that this agent learns, it learns from the answer
            better = FITTING.replace("+ 1", f"+ {2 + offset:.0f}")
            passed = await called(session, "check", definition=name, code=better)
            said["statuses"] = [each["check"]["jobs"][0]["status"] for each in (wrong, passed)]
            kernel = passed["check"]["kernel"]
            await called(session, "add_solution", definition=name, kernel=kernel, name="mine")
            said["run"] = await called(
                session, "run", solutions=["mine"], iterations=5, num_trials=1, warmup_runs=1
            )
            said["best"] = await called(session, "best")
            return said

    said = run_apart(hour())

    assert len(said["tools"]) >= 12
    assert said["statuses"] == ["INCORRECT_NUMERICAL", "PASSED"]
    assert said["run"]["counts"]["passed"] == said["run"]["counts"]["planned"] > 0
    assert said["best"]["by_hardware"][0]["best"][0]["solution"] == "mine"


def test_whatever_is_wrong_is_an_answer_that_says_so(dataset: Path, tmp_path: Path) -> None:
    async def mistakes() -> list[Any]:
        async with connected(dataset, tmp_path / "cache") as session:
            calls: list[tuple[str, dict[str, Any]]] = [
                ("check", {"definition": "incremen", "code": WRONG}),
                ("check", {"definition": "increment"}),
                ("check", {"code": WRONG}),
                ("check", {"definition": "increment", "code": WRONG, "timeout": True}),
                ("check", {"definition": "--help", "code": WRONG}),
                ("show", {"names": ["--json"]}),
                ("more", {"handle": "a99"}),
                ("chek", {}),
            ]
            return [await session.call_tool(name, arguments) for name, arguments in calls]

    answers = run_apart(mistakes())

    assert [each.is_error for each in answers] == [True] * 8
    assert {each.structured_content["error"]["kind"] for each in answers} == {"usage"}
    said = [each.structured_content["error"]["message"] for each in answers]
    assert "did you mean 'increment'?" in said[0]
    assert "'definition' is a required property" in said[2]
    assert not [each for each in said if "Traceback" in each]


def test_what_was_omitted_can_be_had_by_its_path(dataset: Path, tmp_path: Path) -> None:
    async def pages() -> tuple[dict[str, Any], dict[str, Any]]:
        async with connected(dataset, tmp_path / "cache") as session:
            short = await called(
                session, "check", definition="increment", code=WRONG, budget_tokens=700
            )
            omitted = short["omitted"]
            log = next(each for each in omitted["parts"] if each["path"].endswith("/log"))
            return short, await called(session, "more", handle=omitted["handle"], path=log["path"])

    short, logs = run_apart(pages())

    assert "elements differ" in logs["value"][0]
    assert short["check"]["jobs"]


def waited_for(condition: Callable[[], bool], seconds: float) -> float:
    """Wait for a condition; how long that took."""
    began = time.monotonic()
    while not condition() and time.monotonic() < began + seconds:
        time.sleep(0.01)
    return time.monotonic() - began


def test_cancelling_a_call_ends_its_kernel_within_a_second(dataset: Path, tmp_path: Path) -> None:
    def below() -> list[psutil.Process]:
        (server,) = (each for each in psutil.Process().children() if "mcp" in each.cmdline())
        return server.children(recursive=True)

    async def cancelled() -> tuple[int, float]:
        async with connected(dataset, tmp_path / "cache") as session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(
                    session.call_tool, "check", {"definition": "increment", "code": SLOW}
                )
                # The command, its fork server, a judge and two candidates.
                await anyio.to_thread.run_sync(waited_for, lambda: len(below()) >= 5, 60.0)
                running = len(below())
                tasks.cancel_scope.cancel()
            return running, await anyio.to_thread.run_sync(waited_for, lambda: not below(), 10.0)

    running, took_s = run_apart(cancelled())

    assert running >= 5
    assert took_s < 1.0


@pytest.mark.full  # the lock itself: test_loaded_machine
def test_two_clients_at_once_measure_one_after_the_other(dataset: Path, tmp_path: Path) -> None:
    lines: list[str] = []

    async def hear(_: float, __: float | None, message: str | None) -> None:
        lines.append(message or "")

    def is_measuring() -> bool:
        return len(psutil.Process().children(recursive=True)) >= 7

    async def both() -> Any:
        slow = {"definition": "increment", "code": SLOW, "timeout": 5}
        async with (
            connected(dataset, tmp_path / "cache") as first,
            connected(dataset, tmp_path / "cache") as second,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(first.call_tool, "check", slow)
            await anyio.to_thread.run_sync(waited_for, is_measuring, 60.0)
            return await second.call_tool(
                "check", {"definition": "increment", "code": FITTING}, progress_callback=hear
            )

    answer = run_apart(both())

    assert answer.structured_content["counts"]["passed"] == 1
    assert "is in use by another benchmark" in lines[0]
    assert lines[-1].startswith("PASSED")
