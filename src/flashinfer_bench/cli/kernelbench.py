"""`flashinfer-bench kernelbench`: other people's problems, brought here and judged here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command, Group
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.report.numbers import count_text
from flashinfer_bench.report.tables import heading, paragraph

if TYPE_CHECKING:
    from flashinfer_bench.kernelbench.fetching import Fetched
    from flashinfer_bench.report.tables import Page


@click.group(
    cls=Group,
    examples=[
        "flashinfer-bench kernelbench fetch data/kernelbench",
    ],
)
def kernelbench() -> None:
    """Bring KernelBench's problems, and judge and time candidates for them."""


@kernelbench.command(
    cls=Command,
    examples=[
        "flashinfer-bench kernelbench fetch data/kernelbench",
        "flashinfer-bench kernelbench fetch data/kernelbench --revision v0.1",
        "flashinfer-bench kernelbench fetch problems --repository ../KernelBench",
    ],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--revision",
    metavar="REV",
    help="Branch, tag or commit.  [default: the commit in DIR/manifest.txt, else main]",
)
@click.option(
    "--repository",
    metavar="URL|PATH",
    help="Where it comes from; the path of a clone needs no network.  [default: KernelBench's own]",
)
@json_option
@log_level_option
def fetch(folder: Path, revision: str | None, repository: str | None, *, as_json: bool) -> None:
    """Bring the problems of levels 1 to 3 with git, and say which of the documented 251 are not there.

    The first fetch takes the branch `main` as it is at that moment and writes the commit to DIR/manifest.txt;
    from then on that commit is the revision, until `--revision` names another. Keep the manifest under version
    control, and everyone works on the same files. Files that were edited are written again.
    """
    from flashinfer_bench.kernelbench.fetching import fetch as bring  # noqa: PLC0415  # rarely needed

    fetched = bring(folder, revision=revision, repository=repository)
    if as_json:
        screen.show_json({"schema_version": 1, "fetch": fetched})
    else:
        screen.show(_fetched_page(fetched))


def _fetched_page(fetched: Fetched) -> Page:
    how = "the commit in manifest.txt" if fetched.was_pinned else fetched.revision
    by_level = ", ".join(
        f"{sum(name.startswith(f'level{level}/') for name in fetched.files)} of level {level}"
        for level in (1, 2, 3)
    )
    lines = [
        f"{fetched.repository}",
        f"{how}, {fetched.commit}",
        f"{by_level}; {count_text(len(fetched.changed), 'file')} new or changed",
    ]
    blocks = [heading(f"{count_text(len(fetched.files), 'problem')} in {fetched.folder}")]
    blocks.append(paragraph(*lines))
    if fetched.missing:
        names = [name.removeprefix("*/") for name in fetched.missing]
        blocks.append(heading(f"{len(names)} of the documented 251 are not in this commit"))
        blocks.append(paragraph(*names))
    return tuple(blocks)
