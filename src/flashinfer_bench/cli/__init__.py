"""The command line: one file per command, loaded when chosen; the only place that prints."""

from __future__ import annotations


def __getattr__(name: str) -> object:
    """Give the root command where the existing system has it; loaded when asked for."""
    if name == "cli":
        from flashinfer_bench.cli.main import cli  # noqa: PLC0415  # slow

        return cli
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
