"""Tools that are called: their documents become answers within a budget. Here they are commands of this machine."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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


class Toolbox(ABC):
    """Tools, wherever they work; `kernel_guide` and `more` are among all of them.

    An answer is a document cut to a budget of tokens; `answers` has those that were cut whole.
    """

    def __init__(self, answers: AnswerStore, budget: int) -> None:
        self._answers = answers
        self._budget = budget

    @abstractmethod
    def own_schemas(self) -> list[ToolSchema]:
        """Describe the tools, without those that all have."""

    @abstractmethod
    def output_schema(self, name: str) -> dict[str, Any] | None:
        """Give the schema of a tool's answers, where there is one."""

    @abstractmethod
    def is_read_only(self, name: str) -> bool:
        """Whether a tool leaves the dataset, and what others see, as it is."""

    @abstractmethod
    async def work(self, name: str, arguments: dict[str, Any], tell: TellLine) -> ToolAnswer:
        """Do what a tool does, with arguments that are of its schema; give the whole document."""

    def schemas(self) -> list[ToolSchema]:
        """Describe the tools."""
        return [*self.own_schemas(), *tools.SERVER_TOOLS]

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
            part = self._answers.part(arguments["handle"], arguments.get("path", ""))
            found = ToolAnswer(page_of(part, arguments.get("offset", 0), budget))
        elif name == tools.GUIDE:
            found = ToolAnswer({"guide": guide(arguments["language"])})
        else:
            found = await self.work(name, arguments, tell)
        return replace(found, content=await self._fitting(found.content, budget))

    async def _fitting(self, document: dict[str, Any], budget: int) -> dict[str, Any]:
        from anyio import to_thread  # noqa: PLC0415  # of an extra

        cut = await to_thread.run_sync(fitted, document, budget)  # a large one takes seconds
        handle = self._answers.keep(document) if cut.left_out else None
        answer: dict[str, Any] = answer_of(cut, handle)
        return answer


def suffix_of(language: str) -> str:
    """Give the suffix of a kernel's file.

    >>> suffix_of("cuda"), suffix_of("triton")
    ('.cu', '.py')
    """
    return _SUFFIXES.get(language, ".py")


def fault_answer(error: BaseException) -> ToolAnswer:
    """Write an exception as the document that a command prints of it."""
    fault = msgspec.to_builtins(fault_of(error))
    document = {"schema_version": 1, "exit_code": fault["exit_code"], "error": fault}
    return ToolAnswer(fitted(document, DEFAULT_BUDGET).document, is_error=True)


class CommandToolbox(Toolbox):
    """Tools that are commands of this machine, on a dataset.

    Kernels given as code are files of `scratch`, so that later calls can name them.
    """

    def __init__(
        self, datasets: Sequence[Path], scratch: Path, *, budget: int = DEFAULT_BUDGET
    ) -> None:
        super().__init__(AnswerStore(), budget)
        self._tools = tools.command_tools()
        self._datasets = tuple(str(each.resolve()) for each in datasets)
        self._scratch = scratch
        self._numbers = itertools.count(1)

    def own_schemas(self) -> list[ToolSchema]:
        """Describe the tools, without those that all have."""
        return tools.tool_schemas(list(self._tools.values()))

    def output_schema(self, name: str) -> dict[str, Any] | None:
        """Give the schema of a tool's answers; `more` and the guide have none."""
        found = self._tools.get(name)
        return None if found is None else tools.output_schema(found)

    def is_read_only(self, name: str) -> bool:
        """Whether a tool leaves the dataset, and what others see, as it is."""
        found = self._tools.get(name)
        return found is None or found.is_read_only

    async def work(self, name: str, arguments: dict[str, Any], tell: TellLine) -> ToolAnswer:
        """Run the command."""
        from flashinfer_bench.agents.command_runs import run_command  # noqa: PLC0415  # an extra

        words = self._words(self._tools[name], arguments)
        found = await run_command(words, on_line=tell)
        return ToolAnswer(found.document, is_error=found.is_fault)

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
        file = self._scratch / f"kernel_{next(self._numbers)}{suffix_of(language)}"
        file.write_text(code, encoding="utf-8")
        return str(file)
