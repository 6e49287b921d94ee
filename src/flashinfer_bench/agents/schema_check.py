"""Arguments of a tool compared with their schema."""

from __future__ import annotations

from typing import Any

from flashinfer_bench.errors import MissingPackageError, UsageError


def require_valid(arguments: dict[str, Any], schema: dict[str, Any], tool: str) -> None:
    """Raise `UsageError` that names the argument at fault."""
    try:
        from jsonschema import Draft202012Validator  # noqa: PLC0415  # of an extra
        from jsonschema.exceptions import best_match  # noqa: PLC0415
    except ImportError:
        raise MissingPackageError("mcp", extra="agents", needed_for="the MCP server") from None
    error = best_match(Draft202012Validator(schema).iter_errors(arguments))
    if error is None:
        return
    where = ".".join(str(each) for each in error.absolute_path)
    known = ", ".join(schema["properties"])
    raise UsageError(f"{tool}{f': {where}' if where else ''}: {error.message}; it takes {known}")
