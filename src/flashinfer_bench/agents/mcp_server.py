"""A toolbox as a server of the Model Context Protocol: answers are structured, errors are values."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from flashinfer_bench.agents.answers import compact_text
from flashinfer_bench.errors import MissingPackageError

try:
    import anyio
    import mcp.types as messages
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
except ImportError:
    raise MissingPackageError("mcp", extra="agents", needed_for="the MCP server") from None

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server import ServerRequestContext

    from flashinfer_bench.agents.toolbox import Toolbox

_INSTRUCTIONS = (
    "Write kernels for the definitions of a dataset. show a definition, kernel_guide for the language, "
    "check a kernel until it passes, ab to compare, add_solution and run to record. An answer names what it "
    "omitted; more gives it."
)


def make_mcp_server(
    toolbox_of: Callable[[ServerRequestContext[Any]], Toolbox], version: str, instructions: str
) -> Server[Any]:
    """Make a server of the toolbox that each request's sender has; a cancelled call ends what it started."""

    async def list_tools(
        context: ServerRequestContext[Any],
        asked: messages.PaginatedRequestParams | None,  # noqa: ARG001  # the library's signature
    ) -> messages.ListToolsResult:
        return messages.ListToolsResult(tools=mcp_tools(toolbox_of(context)))

    async def call_tool(
        context: ServerRequestContext[Any], asked: messages.CallToolRequestParams
    ) -> messages.CallToolResult:
        count = itertools.count(1)

        async def tell(line: str) -> None:
            await context.session.report_progress(next(count), message=line)

        found = await toolbox_of(context).call(asked.name, asked.arguments or {}, tell)
        text = messages.TextContent(type="text", text=compact_text(found.content))
        return messages.CallToolResult(
            content=[text], structured_content=found.content, is_error=found.is_error
        )

    return Server(
        "flashinfer-bench",
        version=version,
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def mcp_tools(toolbox: Toolbox) -> list[messages.Tool]:
    """Describe the tools as the protocol does."""
    return [
        messages.Tool(
            name=each.name,
            description=each.description,
            input_schema=each.parameters,
            output_schema=toolbox.output_schema(each.name),
            annotations=messages.ToolAnnotations(
                read_only_hint=toolbox.is_read_only(each.name), destructive_hint=False
            ),
        )
        for each in toolbox.schemas()
    ]


def run_stdio(toolbox: Toolbox, version: str) -> None:
    """Serve one client on standard input and output, until it goes."""
    anyio.run(_serve_stdio, toolbox, version)


async def _serve_stdio(toolbox: Toolbox, version: str) -> None:
    server = make_mcp_server(lambda _: toolbox, version, _INSTRUCTIONS)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
