"""Score what deploying the best of several runs gains."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.deployed.results import PHASES, ModelReport
from flashinfer_bench.deployed.scores import ModelPlace, deployed_score, places_of
from flashinfer_bench.deployed.screens import score_page
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUITE = "a suite has [[model]] tables with name, family, share, prefill and decode"


@click.command(
    "score",
    cls=Command,
    document={"score": "flashinfer_bench.deployed.scores:DeployedScore"},
    examples=[
        "flashinfer-bench report score llama.json mixtral.json",
        "flashinfer-bench report score runs/*.json --metric deployed --suite suite.toml --json",
    ],
)
@click.argument(
    "results",
    nargs=-1,
    required=True,
    metavar="RESULT...",
    type=click.Path(path_type=Path),
)
@click.option(
    "--metric",
    type=click.Choice(["deployed"]),
    default="deployed",
    show_default=True,
    help="What is scored.",
)
@click.option(
    "--suite",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="TOML with a [[model]] table each: name, family, share of the device's time, and prefill's and "
    "decode's of that.  [default: the models that were run, alike]",
)
@json_option
@log_level_option
def score(results: tuple[Path, ...], metric: str, suite: Path | None, as_json: bool) -> None:
    """Score what deploying the best of several runs gains.

    RESULT are documents of `bench-model --json`, the newest last. A model's speedup is of its best run whose
    interval lies above 1, phase by phase, in the mode in which the baseline is fastest; what failed, is not surely
    faster or was not tried counts 1. Phases and a family's models are put together by their shares of the
    device's time, families by a geometric mean. Beside it stands what the newest runs gain as shipped: without
    the model's own code where it is faster.
    """
    del metric  # one so far
    for each in (*results, *(() if suite is None else (suite,))):
        if not each.is_file():
            raise UsageError(f"{each}: no such file")
    runs = [_read(each) for each in results]
    hardware = {run.hardware for run in runs}
    if len(hardware) > 1:
        raise UsageError(
            f"the results are of different hardware: {', '.join(sorted(hardware))}; score each by itself"
        )
    _require_alike(runs)
    found = deployed_score(runs, places_of(runs) if suite is None else _places(suite, runs))
    if as_json:
        screen.show_json({"schema_version": 1, "score": found})
    else:
        screen.show(score_page(found))


def _require_alike(runs: Sequence[ModelReport]) -> None:
    """Refuse runs of one model at different sizes: the best of them is of no deployment."""
    settings: dict[str, tuple[object, ...]] = {}
    for run in runs:
        own = (run.dtype, run.rows, run.prompt, run.steps)
        if settings.setdefault(run.model, own) != own:
            raise UsageError(
                f"results of {run.model} differ in dtype, rows, prompt or steps: score one setting at a time"
            )


def _read(path: Path) -> ModelReport:
    try:
        return msgspec.convert(msgspec.json.decode(path.read_bytes())["model"], ModelReport)
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: no document of `flashinfer-bench bench-model --json`: {error}"
        ) from error


def _places(path: Path, runs: Sequence[ModelReport]) -> list[ModelPlace]:
    try:
        tables: list[dict[str, Any]] = tomllib.loads(path.read_text()).get("model", [])
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: no TOML: {error}") from error
    try:
        found = [_place(each) for each in tables]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: {error}: {_SUITE}") from error
    missing = {run.model for run in runs} - {each.model for each in found}
    if missing or not found:
        raise UsageError(f"{path}: without {', '.join(sorted(missing)) or 'any model'}: {_SUITE}")
    return found


def _place(table: dict[str, Any]) -> ModelPlace:
    shares = {phase: float(table[phase]) for phase in PHASES}
    share, whole = float(table["share"]), sum(shares.values())
    if share <= 0 or whole <= 0 or min(shares.values()) < 0:
        raise ValueError("a share is not positive")
    phases = {phase: each / whole for phase, each in shares.items()}
    return ModelPlace(str(table["name"]), str(table["family"]), share, phases)
