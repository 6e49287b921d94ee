"""Calls of tools on this machine: arguments become a command, its document becomes an answer within a budget."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from flashinfer_bench.agents import tools
from flashinfer_bench.agents.answers import (
    DEFAULT_BUDGET,
    AnswerStore,
    answer_of,
    fitted,
    page_of,
)
from flashinfer_bench.agents.guides import guide
from flashinfer_bench.agents.parameter_schemas import command_line, public_name
from flashinfer_bench.agents.schema_check import require_valid
from flashinfer_bench.cli.boundary import fault_of
from flashinfer_bench.cli.measure.kernel_files import LANGUAGES_BY_SUFFIX
from flashinfer_bench.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from flashinfer_bench.agents.tools import AgentTool, ToolSchema

    TellLine = Callable[[str], Awaitable[None]]

_SUFFIXES = {language: suffix for suffix, language in reversed(LANGUAGES_BY_SUFFIX.items())}


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a call is answered with."""

    content: dict[str, Any]
    is_error: bool = False


class Toolbox(Protocol):
    """Tools, wherever they work."""

    def schemas(self) -> list[ToolSchema]:
        """Describe the tools."""
        ...

    def output_schema(self, name: str) -> dict[str, Any] | None:
        """Give the schema of a tool's answers, where there is one."""
        ...

    def is_read_only(self, name: str) -> bool:
        """Whether a tool leaves everything as it is."""
        ...

    async def call(self, name: str, arguments: dict[str, Any], tell: TellLine) -> ToolAnswer:
        """Call a tool; whatever is wrong is an answer."""
        ...


def fault_answer(error: BaseException) -> ToolAnswer:
    """Write an exception as the document that a command prints of it."""
    fault = msgspec.to_builtins(fault_of(error))
    document = {"schema_version": 1, "exit_code": fault["exit_code"], "error": fault}
    return ToolAnswer(fitted(document, DEFAULT_BUDGET).document, is_error=True)


class CommandToolbox:
    """Tools that are commands of this machine, on a dataset.

    Kernels given as code are files of `scratch`, so that later calls can name them.
    """

    def __init__(
        self, datasets: Sequence[Path], scratch: Path, *, budget: int = DEFAULT_BUDGET
    ) -> None:
        self._tools = tools.command_tools()
        self._datasets = tuple(str(each.resolve()) for each in datasets)
        self._scratch = scratch
        self._budget = budget
        self._answers = AnswerStore()
        self._numbers = itertools.count(1)

    def schemas(self) -> list[ToolSchema]:
        """Describe the tools."""
        return tools.all_tool_schemas(list(self._tools.values()))

    def output_schema(self, name: str) -> dict[str, Any] | None:
        """Give the schema of a tool's answers; `more` and the guide have none."""
        found = self._tools.get(name)
        return None if found is None else tools.output_schema(found)

    def is_read_only(self, name: str) -> bool:
        """Whether a tool leaves the dataset, and what others see, as it is."""
        found = self._tools.get(name)
        return found is None or found.is_read_only

    async def call(self, name: str, arguments: dict[str, Any], tell: TellLine) -> ToolAnswer:
        """Call a tool; whatever is wrong is an answer."""
        try:
            return await self._call(name, arguments, tell)
        except Exception as error:  # noqa: BLE001  # a server that answers many never ends with one call
            return fault_answer(error)

    def call_now(self, name: str, arguments: dict[str, Any]) -> ToolAnswer:
        """Call a tool and wait for its answer, in programs that are not asynchronous."""
        import anyio  # noqa: PLC0415  # of an extra

        async def ignore(_: str) -> None:
            pass

        return anyio.run(self.call, name, arguments, ignore)

    async def _call(self, name: str, arguments: dict[str, Any], tell: TellLine) -> ToolAnswer:
        schemas = {each.name: each.parameters for each in self.schemas()}
        if name not in schemas:
            raise UnknownNameError("tool", name, schemas)
        require_valid(arguments, schemas[name], name)
        budget = arguments.get(tools.BUDGET, self._budget)
        if name == tools.MORE:
            return ToolAnswer(self._more(arguments, budget))
        if name == tools.GUIDE:
            return ToolAnswer(self._answer({"guide": guide(arguments["language"])}, budget))
        return await self._run(self._tools[name], arguments, budget, tell)

    async def _run(
        self, tool: AgentTool, arguments: dict[str, Any], budget: int, tell: TellLine
    ) -> ToolAnswer:
        from flashinfer_bench.agents.command_runs import run_command  # noqa: PLC0415  # an extra

        found = await run_command(self._words(tool, arguments), on_line=tell)
        return ToolAnswer(self._answer(found.document, budget), is_error=found.is_fault)

    def _answer(self, document: dict[str, Any], budget: int) -> dict[str, Any]:
        cut = fitted(document, budget)
        answer: dict[str, Any] = answer_of(
            cut, self._answers.keep(document) if cut.left_out else None
        )
        return answer

    def _more(self, arguments: dict[str, Any], budget: int) -> dict[str, Any]:
        part = self._answers.part(arguments["handle"], arguments.get("path", ""))
        page = page_of(part, arguments.get("offset", 0), budget)
        cut = fitted(page, budget)
        found: dict[str, Any] = answer_of(cut, self._answers.keep(page) if cut.left_out else None)
        return found

    def _words(self, tool: AgentTool, arguments: dict[str, Any]) -> list[str]:
        """Write the command line."""
        parameters = dict(tools.tool_parameters(tool))
        given = dict(arguments)
        if tool.kernel:
            command = tools.command_of(tool)
            assert command is not None
            parameters[tool.kernel] = next(
                each for each in command.params if public_name(each) == tool.kernel
            )
            given[tool.kernel] = self._kernel(tool, given)
        options, places = command_line(parameters, given)
        local = [f"--local={each}" for each in self._datasets] if tool.dataset else []
        fixed_places = [each for each in tool.fixed if not each.startswith("-")]
        fixed_options = [each for each in tool.fixed if each.startswith("-")]
        after = ["--", *fixed_places, *places] if fixed_places or places else []
        return [*tool.words, *options, *fixed_options, *local, "--json", *after]

    def _kernel(self, tool: AgentTool, arguments: dict[str, Any]) -> str | None:
        """Give the kernel's file; code becomes one."""
        code, path = arguments.get(tools.CODE), arguments.get("kernel")
        if (code is None) == (path is None) and not (tool.kernel == "from" and code is None):
            raise UsageError(
                f"{tool.name}: give the kernel as `code`, or as `kernel`: a file or folder"
            )
        if code is None:
            return path
        language = arguments.get("language", "python")
        file = self._scratch / f"kernel_{next(self._numbers)}{_SUFFIXES.get(language, '.py')}"
        file.write_text(code, encoding="utf-8")
        return str(file)
