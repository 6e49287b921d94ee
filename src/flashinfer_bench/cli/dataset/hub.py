"""`flashinfer-bench hub`: dataset repositories of the Hugging Face hub."""

from __future__ import annotations

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command, CommandGroup
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.data.exchange import hub as hub_module
from flashinfer_bench.errors import UsageError
from flashinfer_bench.text.tables import Column, heading, paragraph, table

_BYTES_PER_MB = 1e6
_LEAST_BYTES = 50_000


@click.group(
    cls=CommandGroup,
    examples=[
        "flashinfer-bench hub pull",
        "flashinfer-bench hub status flashinfer-ai/flashinfer-trace",
    ],
)
def hub() -> None:
    """Download datasets from the Hugging Face hub, and list what is here.

    Datasets lie in the cache of the hub's client (HF_HUB_CACHE, HF_HOME) and stay as they were published: `run
    --hub` records traces in the folder that `--output` names. HF_ENDPOINT names another hub, HF_HUB_OFFLINE=1
    asks none. Needs huggingface_hub: pip install 'flashinfer-bench[hub]'.
    """


@hub.command(
    cls=Command,
    examples=[
        "flashinfer-bench hub pull",
        "flashinfer-bench hub pull flashinfer-ai/flashinfer-trace --revision main",
    ],
)
@click.argument("repository", metavar="[ORG/NAME]", default=hub_module.FLASHINFER_TRACE)
@click.option("--revision", metavar="REV", help="Branch, tag or commit.  [default: main]")
@json_option
@log_level_option
def pull(repository: str, revision: str | None, as_json: bool) -> None:
    """Download a dataset into the cache, or what is new in it; without a network list what is there.

    The default is flashinfer-ai/flashinfer-trace. `--hub ORG/NAME@COMMIT` then reads just that commit, with or
    without a network.
    """
    pulled = hub_module.pull(_named(repository, revision))
    if as_json:
        screen.show_json({"schema_version": 1, "pulled": pulled})
        return
    if not pulled.is_current:
        log.warn(f"{pulled.why_not}; this is what an earlier pull brought")
    lines = [f"commit  {pulled.commit}", f"folder  {pulled.folder}"]
    lines.append(
        f"next    flashinfer-bench report summary --hub {pulled.repository}@{pulled.commit}"
    )
    screen.show((heading(f"{pulled.repository}@{pulled.revision}"), paragraph(*lines)))


@hub.command(
    cls=Command,
    examples=["flashinfer-bench hub status", "flashinfer-bench hub status me/kernels --json"],
)
@click.argument("repository", metavar="[ORG/NAME]", default=hub_module.FLASHINFER_TRACE)
@click.option("--revision", metavar="REV", help="Branch, tag or commit.  [default: main]")
@json_option
@log_level_option
def status(repository: str, revision: str | None, as_json: bool) -> None:
    """List the revisions of a dataset that are here, and say whether the hub has a newer one."""
    found = hub_module.status(_named(repository, revision))
    if as_json:
        screen.show_json({"schema_version": 1, "status": found})
        return
    title = heading(f"{found.repository}@{found.revision}: {_verdict(found)}")
    columns = [
        Column("commit"),
        Column("pulled as"),
        Column("MB", is_number=True),
        Column("folder"),
    ]
    rows = [
        [
            each.commit[:12] + ("" if each.is_whole else ", in part"),
            ", ".join(each.refs),
            _megabytes(each.size_bytes),
            each.folder,
        ]
        for each in found.cached
    ]
    screen.show((title, table(columns, rows)) if rows else (title,))


def _named(repository: str, revision: str | None) -> hub_module.Repository:
    if revision is not None and "@" in repository:
        raise UsageError(
            f"{repository} has a revision, and --revision names one too: give one of them"
        )
    return hub_module.Repository.named(repository + (f"@{revision}" if revision else ""))


def _verdict(found: hub_module.Status) -> str:
    if found.newest is None:
        what = "whether this is the newest is not known" if found.cached else "not here"
        return f"{what}; {found.why_not}"
    revision = "" if found.revision == "main" else f"@{found.revision}"
    pull = f"`flashinfer-bench hub pull {found.repository}{revision}`"
    here = [each for each in found.cached if each.commit == found.newest]
    commit = found.newest[:12]
    if here and here[0].is_whole:
        return f"up to date at {commit}"
    if here:
        return f"{commit} is here in part; {pull} brings the rest"
    if found.cached:
        return f"the hub has {commit}; {pull} brings it"
    return f"not here; {pull} brings it"


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / _BYTES_PER_MB:.1f}" if size_bytes > _LEAST_BYTES else "<0.1"
