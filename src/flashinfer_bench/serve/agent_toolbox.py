"""Tools of the service for programs that write kernels: what they submit goes the way of `submit`."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio import to_thread
from pydantic import ValidationError

from flashinfer_bench.agents import tools
from flashinfer_bench.agents.answers import DEFAULT_BUDGET
from flashinfer_bench.agents.toolbox import ToolAnswer, Toolbox, fault_answer, suffix_of
from flashinfer_bench.agents.tools import ToolSchema
from flashinfer_bench.cli.dataset.listing import selected_definitions, workloads_named
from flashinfer_bench.cli.screen import json_ready
from flashinfer_bench.data import Solution, TraceSet
from flashinfer_bench.data.parsing import fault_sentence
from flashinfer_bench.errors import UnknownNameError, UsageError
from flashinfer_bench.report.holdings import holdings, shown_definition
from flashinfer_bench.report.jobs import for_document
from flashinfer_bench.serve import messages, screens
from flashinfer_bench.serve.callers import require_scope
from flashinfer_bench.serve.kernel_submissions import submitted_solution
from flashinfer_bench.serve.states import ENDED
from flashinfer_bench.serve.task_events import task_events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from flashinfer_bench.agents.answers import AnswerStore
    from flashinfer_bench.agents.toolbox import TellLine
    from flashinfer_bench.data import Definition
    from flashinfer_bench.serve.service import Service
    from flashinfer_bench.serve.tokens import Requester

    Work = Callable[[dict[str, Any], TellLine], Awaitable[ToolAnswer]]

OF_COMMANDS = ("list_definitions", "list_workloads", "show", "submit", "tasks", "cancel_task")
"""Tools that have the arguments and answers of those of `mcp`."""
HEALTH, TASK = "health", "task"
_NOT_HERE = frozenset({"server", "token_file", "kernel"})
"""Arguments that name files or servers: this one reads no file for who asks."""
_OF_OTHERS = frozenset({"solutions", "traces"})
"""What a dataset holds of all tenants."""
_WAIT = {
    "type": "number",
    "minimum": 0,
    "maximum": messages.MOST_WAIT_S,
    "description": "Wait no longer than so many seconds; the task goes on.",
}
_SOLUTION = {
    "type": "object",
    "description": "A whole solution, as its JSON file has it; instead of code, for several files.",
}


def instructions() -> str:
    """Say what a program is to do with the tools, and which of those of `mcp` are not among them."""
    missing = ", ".join(each for each in tools.command_tools() if each not in OF_COMMANDS)
    return (
        "Write kernels for the definitions of a service. show a definition, kernel_guide for the language, submit "
        "a kernel until all its workloads pass; that records it. An answer names what it omitted; more gives it. "
        f"Only `flashinfer-bench mcp` on a machine of your own has {missing}."
    )


def service_tools() -> dict[str, ToolSchema]:
    """Describe the service's tools, by name."""
    known = tools.command_tools()
    found = [
        ToolSchema(name, known[name].description, _input_schema(known[name]))
        for name in OF_COMMANDS
    ]
    task = {
        "type": "object",
        "properties": {
            "task": {"type": "string", "description": "The task, as submit names it."},
            "wait": _WAIT,
            tools.BUDGET: tools.BUDGET_SCHEMA,
        },
        "required": ["task"],
        "additionalProperties": False,
    }
    health = {
        "type": "object",
        "properties": {tools.BUDGET: tools.BUDGET_SCHEMA},
        "additionalProperties": False,
    }
    found += [
        ToolSchema(TASK, "Show what became of a task, or wait for it first.", task),
        ToolSchema(HEALTH, "Say which devices evaluate, and how much waits.", health),
    ]
    return {each.name: each for each in found}


def _input_schema(tool: tools.AgentTool) -> dict[str, Any]:
    schema = tools.input_schema(tool)
    own = {key: each for key, each in schema["properties"].items() if key not in _NOT_HERE}
    if tool.name == "submit":
        own |= {"solution": _SOLUTION, "wait": _WAIT}
        schema["required"] = []
    return schema | {"properties": own}


class ServiceToolbox(Toolbox):
    """Tools for who asks the service, with that caller's rights; nothing runs in this process."""

    def __init__(
        self,
        service: Service,
        caller: Requester,
        answers: AnswerStore,
        schemas: dict[str, ToolSchema],
    ) -> None:
        super().__init__(answers, DEFAULT_BUDGET)
        self._service = service
        self._caller = caller
        self._schemas = schemas
        self._works: dict[str, Work] = {
            "list_definitions": self._list_definitions,
            "list_workloads": self._list_workloads,
            "show": self._show,
            HEALTH: self._health,
            "submit": self._submit,
            TASK: self._task,
            "tasks": self._tasks,
            "cancel_task": self._cancel,
        }

    def own_schemas(self) -> list[ToolSchema]:
        """Describe the tools, without those that all have."""
        return list(self._schemas.values())

    def output_schema(self, name: str) -> dict[str, Any] | None:
        """Give the schema of a tool's answers: the commands'."""
        found = tools.command_tools().get("submit" if name == TASK else name)
        return tools.output_schema(found) if found and name in self._schemas else None

    def is_read_only(self, name: str) -> bool:
        """Whether a tool leaves the dataset, and what others see, as it is."""
        found = tools.command_tools().get(name)
        return found is None or found.is_read_only

    async def work(self, name: str, arguments: dict[str, Any], tell: TellLine) -> ToolAnswer:
        """Do what a tool does; raises `RefusedError` where the caller may not."""
        require_scope(self._caller, "read", "admin")
        return await self._works[name](arguments, tell)

    # The dataset

    async def _list_definitions(self, arguments: dict[str, Any], _: TellLine) -> ToolAnswer:
        return await to_thread.run_sync(self._listed, "definitions", arguments)

    async def _list_workloads(self, arguments: dict[str, Any], _: TellLine) -> ToolAnswer:
        return await to_thread.run_sync(self._listed, "workloads", arguments)

    def _listed(self, kind: str, arguments: dict[str, Any]) -> ToolAnswer:
        held = self._public()
        chosen = selected_definitions(held, tuple(arguments.get("definitions", ())))
        return _answer(list=_without_others(holdings(held, (kind,), chosen)))

    async def _show(self, arguments: dict[str, Any], _: TellLine) -> ToolAnswer:
        def shown() -> ToolAnswer:
            held = self._public()
            return _answer(
                shown=[_without_others(_shown(held, each)) for each in arguments["names"]]
            )

        return await to_thread.run_sync(shown)

    def _public(self) -> TraceSet:
        """Give what all may see: no solutions, no traces."""
        held = self._service.trace_set
        return TraceSet(definitions=held.definitions, workloads=held.workloads)

    async def _health(self, _: dict[str, Any], __: TellLine) -> ToolAnswer:
        state = await to_thread.run_sync(self._service.health)
        return _answer(**state.model_dump(mode="json"))

    # Tasks

    async def _submit(self, arguments: dict[str, Any], tell: TellLine) -> ToolAnswer:
        require_scope(self._caller, "submit")
        solution = await to_thread.run_sync(self._solution, arguments)
        submission = _submission(solution, arguments)
        submitted = await to_thread.run_sync(self._service.submit, submission, self._caller)
        try:
            await tell(f"task {submitted.task_id}")
            wait_s = 0.0 if arguments.get("no_wait") else arguments.get("wait", math.inf)
            state = await self._awaited(submitted.task_id, wait_s, tell)
        except anyio.get_cancelled_exc_class():
            await self._end(submitted.task_id)
            raise
        return await to_thread.run_sync(_report, state, solution)

    async def _end(self, task_id: str) -> None:
        """End the task of a cancelled call; not where the server ends, which its tasks outlive."""
        if self._service.is_draining or self._service.changes.is_over:
            return
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._service.cancel, task_id, self._caller)

    async def _task(self, arguments: dict[str, Any], tell: TellLine) -> ToolAnswer:
        task_id = arguments["task"]
        state = await self._awaited(task_id, arguments.get("wait", 0.0), tell)
        row = await to_thread.run_sync(self._service.queue.task, task_id, self._caller.sees)
        return await to_thread.run_sync(
            _report, state, Solution.model_validate_json(row["document"])
        )

    async def _awaited(self, task_id: str, wait_s: float, tell: TellLine) -> messages.TaskState:
        """Tell what happens to a task until it or the time is over."""
        state = await self._state(task_id)
        if state.status in ENDED or wait_s <= 0:
            return state
        if state.waiting_for:
            await tell(f"it waits for {state.waiting_for}")
        with anyio.move_on_after(wait_s):
            async with contextlib.aclosing(
                task_events(self._service, self._caller, task_id)
            ) as events:
                async for event in events:
                    if event is not None:
                        await tell(screens.event_line(event))
        return await self._state(task_id)

    async def _state(self, task_id: str) -> messages.TaskState:
        return await to_thread.run_sync(self._service.state, task_id, self._caller)

    async def _tasks(self, arguments: dict[str, Any], _: TellLine) -> ToolAnswer:
        rows = await to_thread.run_sync(
            lambda: self._service.queue.tasks(
                self._caller.sees,
                state=arguments.get("status"),
                definition=arguments.get("definition"),
                before=None,
                limit=arguments.get("limit", 20),
            )
        )
        lines = [messages.TaskLine(task_id=r.pop("id"), status=r.pop("state"), **r) for r in rows]
        return _answer(tasks=screens.listed_tasks(lines, time.time()))

    async def _cancel(self, arguments: dict[str, Any], _: TellLine) -> ToolAnswer:
        require_scope(self._caller, "submit", "admin")
        state = await to_thread.run_sync(self._service.cancel, arguments["task"], self._caller)
        return _answer(task=state.task_id, status=state.status, outcome=state.outcome)

    # Kernels

    def definition(self, name: str) -> Definition:
        """Find a definition, for a kernel's file."""
        return self._service.definition(name)

    def kinds(self) -> list[str]:
        """Name the kinds of devices that evaluate."""
        return sorted({each.kind for each in self._service.health().workers}) or ["cpu"]

    def _solution(self, arguments: dict[str, Any]) -> Solution:
        """Make the solution that is submitted, of code or as it was given."""
        code, whole = arguments.get(tools.CODE), arguments.get("solution")
        if (code is None) == (whole is None):
            raise UsageError("submit: give the kernel as `code`, or as `solution`")
        wanted = arguments.get("definition")
        if whole is not None:
            found = _parsed(whole)
            if wanted not in {None, found.definition}:
                raise UsageError(f"the solution implements {found.definition}, not {wanted}")
            name = arguments.get("name")
            return found if name is None else found.model_copy(update={"name": name})
        assert code is not None
        if wanted is None:
            raise UsageError("submit: name what the code implements as `definition`")
        language, entry = arguments.get("language"), arguments.get("entry_point")
        with tempfile.TemporaryDirectory(prefix="flashinfer-bench-submit-") as folder:
            file = Path(folder) / f"kernel{suffix_of(language or 'python')}"
            file.write_bytes(code.encode(errors="surrogatepass"))
            return submitted_solution(
                self, str(file), wanted, arguments.get("name"), language, entry
            )


def _submission(solution: Solution, arguments: dict[str, Any]) -> messages.Submission:
    try:
        return messages.Submission(
            solution=solution,
            workload_uuids=arguments.get("workloads") or None,
            hardware=arguments.get("hardware", "any"),
            fresh=arguments.get("fresh", False),
        )
    except ValidationError as error:
        raise UsageError(f"submit: {_first(error)}") from None


def _parsed(whole: dict[str, Any]) -> Solution:
    try:
        return Solution.model_validate(whole)
    except ValidationError as error:
        raise UsageError(f"submit: solution: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    """Say what is wrong, and where."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    said = fault_sentence(first)
    return f"{where}: {said}" if where else said


def _shown(held: TraceSet, name: str) -> object:
    if name in held.definitions:
        return shown_definition(held, held.definitions[name])
    found = workloads_named(held, name)
    if len(found) > 1:
        raise UsageError(f"{len(found)} ids begin with {name!r}; name more of it")
    if not found:
        uuids = [each.workload.uuid for traces in held.workloads.values() for each in traces]
        raise UnknownNameError("definition or workload", name, [*held.definitions, *uuids])
    return found[0]


def _without_others(value: object) -> Any:
    """Leave out how much a dataset holds of whom."""
    plain = msgspec.to_builtins(value, str_keys=True)

    def kept(each: Any) -> Any:
        match each:
            case dict():
                return {key: kept(v) for key, v in each.items() if key not in _OF_OTHERS}
            case list():
                return [kept(v) for v in each]
            case _:
                return each

    return kept(plain)


def _report(state: messages.TaskState, solution: Solution) -> ToolAnswer:
    """Write the document of `submit`; the server's own address is no part of it."""
    report = screens.submission_report(state, "", solution)
    told = replace(report, jobs=for_document(report.jobs))
    answer = _answer(screens.submission_exit_code(report), submit=told)
    failure = screens.submission_failure(report)
    if failure is None:
        return answer
    error = fault_answer(failure).content["error"]
    return ToolAnswer({**answer.content, "error": error}, is_error=True)


def _answer(exit_code: int = 0, /, **document: object) -> ToolAnswer:
    """Write a document as a command with `--json` prints it."""
    plain = json_ready(msgspec.to_builtins(document, str_keys=True))
    return ToolAnswer({"schema_version": 1, "exit_code": exit_code, **plain})
