"""The command line, called in this process: a process of its own would import everything anew."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from flashinfer_bench.cli.main import cli


def call(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Give a command line; return how it ended, as a process would."""
    words = [str(each) for each in arguments]
    with (
        tempfile.TemporaryFile("w+") as stdout,
        tempfile.TemporaryFile("w+") as stderr,
        Path("/dev/null").open() as stdin,
        mock.patch.object(sys, "stdin", stdin),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        contextlib.chdir(folder or Path.cwd()),
    ):
        code = _code(words)
        for file in (stdout, stderr):
            file.seek(0)
        return subprocess.CompletedProcess(words, code, stdout.read(), stderr.read())


def _code(words: list[str]) -> int:
    try:
        cli.main(words, prog_name="flashinfer-bench")
    except SystemExit as end:
        return int(end.code or 0)
    return 0
