"""The tools that programs are given: commands of this package, with the parameters that matter to a program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.agents.answers import LEAST_BUDGET, OMITTED
from flashinfer_bench.agents.parameter_schemas import parameter_schema, public_name
from flashinfer_bench.cli.document_schemas import document_names, document_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

MORE = "more"
GUIDE = "kernel_guide"
CODE = "code"
_MOST_BUDGET = 100_000
BUDGET = "budget_tokens"
LANGUAGES = ("python", "triton", "cpp", "cuda", "tilelang")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """A command as a tool."""

    name: str
    words: tuple[str, ...]
    """The command's words."""
    description: str
    takes: tuple[str, ...] = ()
    """Parameters of the command that the tool has: its arguments, and options without their dashes."""
    required: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    """What always stands on the command line."""
    kernel: str | None = None
    """The argument that may be given as source code instead of as a file."""
    dataset: bool = True
    """Whether the command is told the server's dataset."""
    document: str = ""
    """The command's document, as `schema` names it."""
    is_read_only: bool = True
    """Whether it leaves dataset and machine as they are."""


_KERNEL = ("definition", "language", "entry_point", "device")

ALL_TOOLS = (
    AgentTool(
        name="list_definitions",
        words=("list",),
        fixed=("definitions",),
        takes=("definitions",),
        document="list",
        description="List what there is to implement: names, axes, inputs, outputs, how many workloads.",
    ),
    AgentTool(
        name="list_workloads",
        words=("list",),
        fixed=("workloads",),
        takes=("definitions",),
        required=("definitions",),
        document="list",
        description="List the workloads of definitions: uuid, axes, size class.",
    ),
    AgentTool(
        name="show",
        words=("show",),
        takes=("names",),
        required=("names",),
        document="show",
        description="Show a definition with its reference, a solution with its sources, a workload or a trace.",
    ),
    AgentTool(
        name="doctor",
        words=("doctor",),
        fixed=("--no-noise",),
        document="doctor",
        description="Say which languages can be built and run here, on which devices, and what is missing.",
    ),
    AgentTool(
        name="check",
        words=("check",),
        kernel="files",
        takes=(*_KERNEL, "workloads", "timeout", "rtol", "atol", "seed", "fail_fast"),
        required=("definition",),
        document="check",
        description="Build, judge and time one kernel, given as code or as a file; nothing is recorded. A wrong one "
        "is answered with its failure: elements, causes, compiler messages. Times are quick ones; `ab` compares.",
    ),
    AgentTool(
        name="ab",
        words=("ab",),
        takes=("old", "new", *_KERNEL, "workloads", "rounds", "threshold"),
        required=("old", "new"),
        document="ab",
        description="Time two solutions against each other in alternating blocks: ratio, 95% interval, verdict. "
        "Each is the name of a solution or a file; the `kernel` that `check` answers with will do.",
    ),
    AgentTool(
        name="add_solution",
        words=("new", "solution"),
        kernel="from",
        takes=("name", "definition", "language", "entry_point", "author"),
        required=("definition",),
        document="new",
        is_read_only=False,
        description="Keep a kernel in the dataset as a solution, for `run`. Without code or kernel: a skeleton.",
    ),
    AgentTool(
        name="run",
        words=("run",),
        takes=(
            *("definitions", "solutions", "workloads", "device", "iterations", "num_trials"),
            *("warmup_runs", "timeout", "resume", "dry_run"),
        ),
        document="run",
        is_read_only=False,
        description="Benchmark solutions of the dataset thoroughly and record traces.",
    ),
    AgentTool(
        name="best",
        words=("report", "best"),
        takes=("max_abs_error", "max_rel_error"),
        document="best",
        description="Show the best solution of each definition from recorded traces.",
    ),
    AgentTool(
        name="summary",
        words=("report", "summary"),
        takes=("score",),
        document="summary",
        description="Rank solutions and authors from recorded traces, with each one's share of the roofline "
        "(sol_fraction) and its speedup over the baseline.",
    ),
    AgentTool(
        name="compare",
        words=("compare",),
        takes=("old", "new", "definitions", "threshold"),
        required=("old", "new"),
        document="compare",
        description="Say from recorded traces what became faster, slower, wrong or right from OLD to NEW: "
        "two solutions, runs, hardware names or dataset folders.",
    ),
    AgentTool(
        name="explain",
        words=("explain",),
        takes=("a", "b", "definition"),
        document="explain",
        description="Say where each of two solutions wins along the axes, and how sources and builds differ.",
    ),
    AgentTool(
        name="profile",
        words=("profile",),
        kernel="solution",
        takes=(*_KERNEL, "workload", "with"),
        document="profile",
        description="Say why a kernel is slow: time, registers, spills, occupancy, stalls, as far as tools here tell.",
    ),
    AgentTool(
        name="sanitize",
        words=("sanitize",),
        kernel="solution",
        takes=(*_KERNEL, "workload", "tool"),
        document="sanitize",
        description="Find out-of-bounds accesses, races and uninitialised memory in a kernel.",
    ),
    AgentTool(
        name="replay",
        words=("replay",),
        takes=("trace_id", "trace", "device", "timeout"),
        document="replay",
        description="Run one recorded job again with its seed, and show how it fails.",
    ),
    AgentTool(
        name="validate",
        words=("validate",),
        fixed=("--disable-gpu",),
        takes=("definitions", "checks"),
        document="validate",
        description="Check the files of the dataset: findings with code, place and remedy.",
    ),
    AgentTool(
        name="submit",
        words=("submit",),
        kernel="kernel",
        dataset=False,
        takes=(
            *("server", "token_file", "definition", "name", "language", "entry_point", "workloads"),
            *("hardware", "fresh", "no_wait", "wait"),
        ),
        required=("definition",),
        document="submit",
        is_read_only=False,
        description="Submit a kernel to a service that evaluates it elsewhere, and wait for what became of it.",
    ),
    AgentTool(
        name="tasks",
        words=("tasks",),
        dataset=False,
        takes=("server", "token_file", "status", "definition", "limit"),
        document="tasks",
        description="List what was submitted to a service.",
    ),
    AgentTool(
        name="cancel_task",
        words=("cancel",),
        dataset=False,
        takes=("task", "server", "token_file"),
        required=("task",),
        document="cancel",
        is_read_only=False,
        description="End a submitted task.",
    ),
)


def command_tools() -> dict[str, AgentTool]:
    """Give the tools whose commands are here, by name."""
    return {each.name: each for each in ALL_TOOLS if command_of(each) is not None}


@cache
def command_of(tool: AgentTool) -> click.Command | None:
    """Find a tool's command."""
    from flashinfer_bench.cli.main import cli  # noqa: PLC0415  # it knows this package's commands

    found: click.Command | None = cli
    for word in tool.words:
        found = (
            found.get_command(click.Context(found), word)
            if isinstance(found, click.Group)
            else None
        )
    return found


def tool_parameters(tool: AgentTool) -> dict[str, click.Parameter]:
    """Give the parameters of a command that its tool has, by their public names."""
    command = command_of(tool)
    assert command is not None
    known = {public_name(each): each for each in command.params}
    return {name: known[name] for name in tool.takes if name in known}


def input_schema(tool: AgentTool) -> dict[str, Any]:
    """Write the JSON schema of a tool's arguments, from the command's options."""
    found = tool_parameters(tool)
    own = {name: parameter_schema(each) for name, each in found.items()}
    kernel = _kernel_schema() if tool.kernel else {}
    return {
        "type": "object",
        "properties": {**kernel, **own, BUDGET: BUDGET_SCHEMA},
        "required": [name for name in tool.required if name in own],
        "additionalProperties": False,
    }


BUDGET_SCHEMA = {
    "type": "integer",
    "minimum": LEAST_BUDGET,
    "maximum": _MOST_BUDGET,
    "description": "Most tokens of the answer.",
}


def _kernel_schema() -> dict[str, Any]:
    return {
        CODE: {
            "type": "string",
            "description": "The kernel's source; with a language that is not python, say it.",
        },
        "kernel": {
            "type": "string",
            "description": "A file, or a folder with a solution.toml; instead of code.",
        },
    }


def more_schema() -> dict[str, Any]:
    """Write the schema of the arguments of `more`."""
    return {
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "The handle in the answer's omitted."},
            "path": {
                "type": "string",
                "description": "A path of omitted; numbers or * for elements. Nothing: all of it.",
            },
            "offset": {
                "type": "integer",
                "minimum": 0,
                "description": "next_offset of the page before.",
            },
            BUDGET: BUDGET_SCHEMA,
        },
        "required": ["handle"],
        "additionalProperties": False,
    }


def guide_schema() -> dict[str, Any]:
    """Write the schema of the arguments of `kernel_guide`."""
    return {
        "type": "object",
        "properties": {
            "language": {"enum": list(LANGUAGES), "description": "What the kernel is written in."},
            BUDGET: BUDGET_SCHEMA,
        },
        "required": ["language"],
        "additionalProperties": False,
    }


def output_schema(tool: AgentTool) -> dict[str, Any] | None:
    """Write the schema of a tool's answer: that of `--json`, of which any part may be missing."""
    if tool.document not in document_names():
        return None
    schema = _with_nothing_required(document_schema(tool.document))
    schema["properties"] |= {
        "error": {"type": "object"},
        OMITTED: {"type": "object"},
    }
    return {"type": "object", **schema}


def _with_nothing_required(schema: Any) -> Any:
    match schema:
        case dict():
            return {
                key: _with_nothing_required(each)
                for key, each in schema.items()
                if not (key == "required" and isinstance(each, list))
            }
        case list():
            return [_with_nothing_required(each) for each in schema]
        case _:
            return schema


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as any format describes it."""

    name: str
    description: str
    parameters: dict[str, Any]


MORE_TEXT = "Give what an answer omitted: its handle, and one of the paths."
GUIDE_TEXT = (
    "Say how a kernel in a language is written here: calling style, rules, an example that passes."
)


SERVER_TOOLS = (
    ToolSchema(GUIDE, GUIDE_TEXT, guide_schema()),
    ToolSchema(MORE, MORE_TEXT, more_schema()),
)
"""What every server of tools answers itself."""


def tool_schemas(tools: Sequence[AgentTool]) -> list[ToolSchema]:
    """Describe commands as tools."""
    return [ToolSchema(each.name, each.description, input_schema(each)) for each in tools]


def all_tool_schemas(tools: Sequence[AgentTool]) -> list[ToolSchema]:
    """Describe commands as tools, and what the server itself answers."""
    return [*tool_schemas(tools), *SERVER_TOOLS]


def as_openai(schema: ToolSchema) -> dict[str, Any]:
    """Write a tool as chat completions of OpenAI take it."""
    function = {
        "name": schema.name,
        "description": schema.description,
        "parameters": schema.parameters,
    }
    return {"type": "function", "function": function}


def as_anthropic(schema: ToolSchema) -> dict[str, Any]:
    """Write a tool as messages of Anthropic take it."""
    return {
        "name": schema.name,
        "description": schema.description,
        "input_schema": schema.parameters,
    }
