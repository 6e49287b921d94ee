"""A fault is one line on stderr and the documented exit code."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import warnings
from collections.abc import Callable, Iterator

import click
import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli import main
from flashinfer_bench.cli.main import cli
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.errors import (
    BuildError,
    DatasetError,
    DatasetWarning,
    DeviceError,
    MissingPackageError,
    StorageError,
    UnknownNameError,
    UsageError,
    WorkerError,
)

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run a command `fail` that does what it is told."""

    def run_command(does: Callable[[], None], *arguments: str) -> Result:
        @click.command("fail")
        @log_level_option
        def fail() -> None:
            does()

        monkeypatch.setattr(main.CommandLine, "get_command", lambda *_: fail)
        return CliRunner().invoke(cli, ["fail", *arguments])

    return run_command


def _raising(error: BaseException) -> Callable[[], None]:
    def does() -> None:
        raise error

    return does


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no"), 2),
        (UnknownNameError("definition", "gem", ["gemm"]), 2),
        (DatasetError("no", path="a.json", line=3), 3),
        (DeviceError("no"), 4),
        (WorkerError("no"), 4),
        (StorageError("no"), 4),
        (MissingPackageError("torch", extra="torch", needed_for="running solutions"), 4),
        (BuildError("no"), 1),
        (OSError(errno.ENOSPC, "No space left on device", "/full"), 4),
        (OSError(errno.EROFS, "Read-only file system", "/fixed"), 4),
        (MemoryError(), 4),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("division by zero"), 4),
    ],
)
def test_every_fault_has_a_code_and_a_line(run: Run, error: BaseException, code: int) -> None:
    result = run(_raising(error))

    assert result.exit_code == code
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output


def test_a_file_that_cannot_be_written_is_named(run: Run) -> None:
    result = run(_raising(OSError(errno.ENOSPC, "No space left on device", "/full")))

    assert result.stderr == "error: /full: No space left on device\n"


def test_a_fault_of_ours_says_how_to_see_more(run: Run) -> None:
    result = run(_raising(ZeroDivisionError("division\nby zero")))

    assert result.stderr == (
        "error: internal error: ZeroDivisionError: division by zero; "
        "run again with --log-level DEBUG for the traceback\n"
    )


def test_debugging_shows_the_traceback(run: Run) -> None:
    result = run(_raising(UsageError("no")), "--log-level", "debug")

    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback")
    assert result.stderr.endswith("error: no\n")


def test_termination_ends_a_command_like_an_interrupt(run: Run) -> None:
    result = run(lambda: os.kill(os.getpid(), signal.SIGTERM))

    assert (result.exit_code, result.stderr) == (130, "error: interrupted\n")


def test_warnings_are_lines_of_the_log(run: Run) -> None:
    result = run(lambda: warnings.warn("a.json: unknown key", DatasetWarning, stacklevel=2))

    assert (result.exit_code, result.stderr) == (0, "warning: a.json: unknown key\n")


def test_warnings_can_be_turned_off(run: Run) -> None:
    result = run(
        lambda: warnings.warn("a.json: unknown key", DatasetWarning, stacklevel=2),
        "--log-level",
        "ERROR",
    )

    assert result.stderr == ""


@pytest.mark.parametrize(
    "arguments", [["schema", "trace"], ["schema", "--log-level", "debug", "nonsense"]]
)
def test_a_command_leaves_the_logger_as_it_was(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("flashinfer_bench")
    for name, value in {"level": logging.ERROR, "propagate": True, "handlers": []}.items():
        monkeypatch.setattr(logger, name, value)

    CliRunner().invoke(cli, arguments)

    assert (logger.level, logger.propagate, logger.handlers) == (logging.ERROR, True, [])


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (UsageError("no"), "usage", 2),
        (click.UsageError("no"), "usage", 2),
        (DatasetError("no", path="a.json", line=3), "dataset", 3),
        (DeviceError("no"), "machine", 4),
        (KeyboardInterrupt(), "interrupted", 130),
        (ValueError("no"), "internal", 4),
    ],
)
def test_a_fault_is_a_document_where_one_was_asked_for(
    error: BaseException, kind: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command("fail")
    @json_option
    @log_level_option
    def fail(as_json: bool) -> None:
        raise error

    monkeypatch.setattr(main.CommandLine, "get_command", lambda *_: fail)
    result = CliRunner().invoke(cli, ["fail", "--json"])
    document = json.loads(result.stdout)

    assert (result.exit_code, document["exit_code"], document["error"]["kind"]) == (
        code,
        code,
        kind,
    )
    assert result.stderr
    assert document["error"]["line"] == (3 if kind == "dataset" else None)


def test_an_option_that_does_not_exist_is_a_document_too() -> None:
    document = json.loads(CliRunner().invoke(cli, ["run", "--nope", "--json"]).stdout)
    line = CliRunner().invoke(cli, ["run", "--nope", "--json", "--progress", "ndjson"]).stdout
    without_a_command = CliRunner().invoke(cli, ["--json"])

    assert document["error"]["message"].startswith("No such option")
    assert json.loads(line)["event"] == "ended"
    assert json.loads(without_a_command.stdout)["exit_code"] == without_a_command.exit_code == 2


def test_json_of_a_program_that_is_run_is_not_ours() -> None:
    result = CliRunner().invoke(cli, ["run", "--nope", "--", "--json"])

    assert result.stdout == ""


@pytest.mark.parametrize("name", ["x" * 10_000, "xy " * 3_000, "abc," * 3_000, "é" * 10_000])
@pytest.mark.parametrize(
    "words",
    [
        "{}",
        "--{}",
        "run --{}",
        "report {}",
        "check k.py --language {}",
        "check k.py --iterations={}",
        "run --time-budget {}",
        "list --log-level {}",
    ],
)
def test_a_message_about_a_long_name_is_a_readable_line(words: str, name: str) -> None:
    arguments = [word.format(name) for word in words.split()]

    result = CliRunner().invoke(cli, arguments)
    document = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)

    assert result.exit_code == document["exit_code"] == 2
    assert len(result.stderr) < 1_300
    assert len(document["error"]["message"]) < 1_000
    assert "Traceback" not in result.output


def test_a_path_of_many_long_names_is_cut(run: Run) -> None:
    path = "/".join(["x" * 200] * 50)

    result = run(_raising(OSError(errno.ENAMETOOLONG, "File name too long", path)))

    assert result.exit_code == 2
    assert result.stderr.endswith(": too long for a file's name\n")
    assert len(result.stderr) < 1_000
