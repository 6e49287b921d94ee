"""Close a contest, write its archive, and check one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option, new_folder_option
from flashinfer_bench.errors import UsageError
from flashinfer_bench.serve.contest.screens import archive_page, board_page
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from flashinfer_bench.serve.contest.client import ContestClient

_POLL_S = 1.0


@click.command(
    "close",
    cls=Command,
    document={
        "archive": "str",
        "key": "str",
        "board": "flashinfer_bench.serve.contest.messages:ContestBoard",
    },
    examples=["flashinfer-bench contest close spring --output spring_archive"],
)
@click.argument("folder", metavar="FOLDER")
@new_folder_option("The archive to write: a new or empty folder.")
@click.option(
    "--server",
    metavar="URL",
    default="http://127.0.0.1:8000",
    show_default=True,
    help="Where `contest open` serves it.",
)
@json_option
@log_level_option
def close(folder: str, output: Path, server: str, as_json: bool) -> None:
    """Take no more entries, evaluate leaders again, rank, and write a signed archive.

    Waits for what teams entered. Interrupted, it goes on where it was when it is called again. The archive holds the
    workloads, all solutions and all traces.
    """
    from flashinfer_bench.data.appending import require_new, require_outside  # noqa: PLC0415
    from flashinfer_bench.serve.contest import archive  # noqa: PLC0415  # pydantic
    from flashinfer_bench.serve.contest.client import ContestClient  # noqa: PLC0415
    from flashinfer_bench.serve.contest.rules import ORGANISER, ContestFolder  # noqa: PLC0415
    from flashinfer_bench.serve.signing import SigningKey  # noqa: PLC0415

    place = ContestFolder(Path(folder))
    place.rules()
    require_new(output)
    require_outside(output, [place.root])
    token = place.token(ORGANISER).read_text(encoding="ascii").strip()
    with ContestClient(server, token) as client:
        _await_closed(client)
        results = client.results()
    key = SigningKey.of_file(place.key)
    archive.write(place.dataset, results, key, output)
    if as_json:
        screen.show_json(
            {
                "schema_version": 1,
                "archive": str(output),
                "key": key.public,
                "board": results.board.to_dict(),
            }
        )
        return
    screen.show(board_page(results.board))
    click.echo(f"{output} is signed with {key.public}")


def _await_closed(client: ContestClient) -> None:
    told = 0
    while not (closing := client.close()).is_closed:
        if closing.waiting_for != told:
            told = closing.waiting_for
            log.inform(f"waiting for {count_text(told, 'evaluation')}")
        time.sleep(_POLL_S)


@click.command(
    "verify",
    cls=Command,
    document={"verify": "flashinfer_bench.serve.contest.archive:ArchiveReport"},
    examples=["flashinfer-bench contest verify spring_archive --key 9f86d0…"],
)
@click.argument("archive", metavar="ARCHIVE")
@click.option("--key", metavar="HEX", help="The contest's, as teams were told it.  [default: any]")
@json_option
@log_level_option
def verify(archive: str, key: str | None, as_json: bool) -> None:
    """Check that an archive is as it was signed, and that its ranking follows from its traces.

    Exits with 1 where a byte was changed, and names the file.
    """
    from flashinfer_bench.serve.contest import archive as archives  # noqa: PLC0415  # pydantic

    root = Path(archive)
    if not root.is_dir():
        raise UsageError(f"{archive}: no such folder")
    report = archives.verify(root, key)
    code = 1 if report.faults else 0
    if as_json:
        board = None if report.board is None else report.board.to_dict()
        document = {
            "contest": report.contest,
            "key": report.key,
            "files": report.files,
            "traces": report.traces,
            "faults": report.faults,
            "board": board,
        }
        screen.show_json({"schema_version": 1, "verify": document}, code)
    else:
        screen.show(archive_page(report))
    click.get_current_context().exit(code)
