"""Make a contest: its rules, a copy of its dataset, and a token for each team."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.datasets import dataset_paths
from flashinfer_bench.cli.options import json_option, local_option, log_level_option
from flashinfer_bench.cli.setting_options import setting_options, settings_about
from flashinfer_bench.errors import UsageError
from flashinfer_bench.serve.commands.serving import chosen_settings, sandbox_help

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.serve.contest.rules import ContestFolder, Rules

_WORKERS = "workers"
_NOT_KEPT = ("solutions", "traces", "profiles")


@click.command(
    "init",
    cls=Command,
    document={"contest": "str", "tokens": "list[str]", "key": "str"},
    examples=[
        "flashinfer-bench contest init spring --local private --teams ann ben --deadline 2026-12-01T12:00:00+00:00",
        "flashinfer-bench contest init spring --local private --teams ann ben --most-entries 50 --reruns 5",
    ],
)
@click.argument("folder", metavar="FOLDER")
@local_option
@click.option("--teams", cls=ManyOption, required=True, metavar="NAME...", help="Who may enter.")
@click.option("--name", metavar="NAME", help="The contest's.  [default: the folder's]")
@click.option(
    "--deadline", metavar="TIME", help="ISO-8601 with its zone; later entries are refused."
)
@click.option(
    "--most-entries",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Of each team: each tells it something of the workloads.",
)
@click.option(
    "--device-seconds",
    type=click.FloatRange(1),
    default=86_400.0,
    show_default=True,
    help="Of devices a day, for each team.",
)
@click.option(
    "--leaders",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Teams of each definition that are evaluated again before they are ranked.",
)
@click.option(
    "--reruns", type=click.IntRange(1), default=3, show_default=True, help="How often they are."
)
@click.option(
    "--hardware", default="any", show_default=True, metavar="NAME", help="What all entries run on."
)
@setting_options("workload_class")
@click.option("--config", metavar="YAML", help="Settings in a file; options override it.")
@setting_options(
    *settings_about("measured", "judged", "run", without="racing"), helps=sandbox_help()
)
@json_option
@log_level_option
def init(  # noqa: PLR0917  # click passes options by name
    folder: str,
    local: tuple[str, ...],
    teams: tuple[str, ...],
    name: str | None,
    deadline: str | None,
    most_entries: int,
    device_seconds: float,
    leaders: int,
    reruns: int,
    hardware: str,
    config: str | None,
    settings: dict[str, Any],
    as_json: bool,
) -> None:
    """Make a contest: its rules, a copy of its dataset, and a token for each team.

    The folder is for the organiser alone: its workloads are private. `tokens/` holds a token for each team, one for
    workers of other machines, and the organiser's. What else the dataset holds, such as solutions, is left out.
    """
    from flashinfer_bench.data.appending import new_folder, require_outside  # noqa: PLC0415
    from flashinfer_bench.serve.contest.rules import ContestFolder, Rules  # noqa: PLC0415
    from flashinfer_bench.serve.signing import SigningKey  # noqa: PLC0415

    roots = dataset_paths(local)
    place = Path(folder)
    if not all(teams):
        raise UsageError("--teams names nobody: give each team a name")
    if not hardware:
        raise UsageError("--hardware is empty: name one, or leave it out")
    require_outside(place, roots)
    chosen = chosen_settings(config, settings)
    with new_folder(place) as staging:
        made = ContestFolder(staging)
        _copy_dataset(roots, made.dataset)
        given = {
            "name": name or place.absolute().name,
            "teams": list(dict.fromkeys(teams)),
            "deadline": deadline,
            "most_entries": most_entries,
            "leaders": leaders,
            "reruns": reruns,
            "hardware": hardware,
            "settings": json.loads(chosen.model_dump_json()),
            "key": SigningKey.of_file(made.key).public,
        }
        try:
            rules = Rules.model_validate(given)
        except ValueError as error:
            raise UsageError(
                f"--deadline {deadline} is no time in ISO-8601 with its zone, as 2026-12-01T12:00:00+00:00 is"
            ) from error
        made.rules_file.write_text(f"{rules.to_json(indent=2)}\n", encoding="utf-8")
        names = _make_tokens(made, rules, device_seconds)
    place.chmod(0o700)
    files = [str(ContestFolder(place).token(each)) for each in names]
    if as_json:
        screen.show_json(
            {"schema_version": 1, "contest": str(place), "tokens": files, "key": rules.key}
        )
        return
    click.echo(f"tokens: {place / 'tokens'}, a file for each team")
    click.echo(f"open it with: flashinfer-bench contest open {place}")


def _copy_dataset(roots: Sequence[Path], folder: Path) -> None:
    from flashinfer_bench.data.exchange.merging import plan_merge, require_kept  # noqa: PLC0415

    planned = plan_merge(roots)
    require_kept(planned.merged, "rename one of each")
    if not planned.merged.taken["workload"]:
        raise UsageError("the dataset has no workloads: a contest needs some")
    planned.write(folder)
    folder.chmod(0o700)
    for each in _NOT_KEPT:
        if (folder / each).is_dir():
            shutil.rmtree(folder / each)
    for each in ("solutions", "traces"):
        (folder / each).mkdir()


def _make_tokens(made: ContestFolder, rules: Rules, device_seconds: float) -> list[str]:
    from flashinfer_bench.serve.contest.rules import ORGANISER  # noqa: PLC0415
    from flashinfer_bench.serve.database import SqliteDatabase  # noqa: PLC0415
    from flashinfer_bench.serve.tokens import UNLIMITED, Quotas, Tokens  # noqa: PLC0415

    for each in (ORGANISER, _WORKERS):
        if each in rules.teams:
            raise UsageError(f"{each!r} has a meaning of its own; name the team otherwise")
    database = SqliteDatabase(made.store)
    tokens = Tokens(database)
    made.token(ORGANISER).parent.mkdir(mode=0o700)
    of_team = Quotas(device_seconds_per_day=device_seconds)
    try:
        for team in rules.teams:
            _write_token(made.token(team), tokens.add(team, ["team"], of_team))
        _write_token(made.token(_WORKERS), tokens.add(_WORKERS, ["worker"]))
        organiser = tokens.add(ORGANISER, ["admin", "read", "team"], UNLIMITED)
        _write_token(made.token(ORGANISER), organiser)
    finally:
        database.close()
    return [*rules.teams, _WORKERS, ORGANISER]


def _write_token(file: Path, token: str) -> None:
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as lines:
        lines.write(f"{token}\n")
