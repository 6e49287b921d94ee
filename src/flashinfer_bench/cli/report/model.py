"""`flashinfer-bench report model`: what a model's kernels are worth to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import current_hashes, load_dataset
from flashinfer_bench.cli.options import (
    dataset_options,
    json_option,
    log_level_option,
    mix_hardware_option,
)
from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.model import ModelWorth, model_page, model_worth
from flashinfer_bench.report.standing import standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.data import Profile, TraceSet


@click.command(
    "model",
    cls=Command,
    examples=[
        "flashinfer-bench report model --local out/gpt_block/dataset",
        "flashinfer-bench report model --profile llama.json --local my_dataset --json",
    ],
)
@click.option(
    "--profile",
    metavar="FILE",
    help="Which kernels a model runs and how often.  [default: each file under the dataset's profiles/]",
)
@dataset_options
@mix_hardware_option
@json_option
@log_level_option
def model(profile: str | None, local: tuple[str, ...], mix_hardware: bool, as_json: bool) -> None:
    """Say how much each kernel is worth to a model.

    For each kernel of a profile the page shows how often it is called, the time of its reference, the best
    solution, and its share of the model's kernel time before and after. Then it shows the model's speedup by
    Amdahl's law: the sum of references over the sum of best solutions, with the kernels' intervals carried
    through. A kernel without a faster solution counts as its reference. Kernels that were not measured are
    named and in no sum. Kernels on one of whose workloads a wrong kernel passes are named, too.
    """
    trace_set = load_dataset(local)
    worths = weighed(trace_set, load_profiles(trace_set, profile), mixes_hardware=mix_hardware)
    if as_json:
        screen.show_json({"schema_version": 1, "models": worths})
    else:
        screen.show(model_page(worths))


def load_profiles(trace_set: TraceSet, path: str | None) -> list[Profile]:
    """Read the named profile, or all that the dataset holds."""
    from flashinfer_bench.data import Profile  # noqa: PLC0415  # pydantic

    if path is not None:
        if not Path(path).is_file():
            raise UsageError(f"--profile {path}: no such file")
        return [Profile.load(path)]
    found = list(profile_files(trace_set.roots))
    if not found:
        folders = ", ".join(f"{root}/profiles" for root in trace_set.roots)
        raise UsageError(
            f"no profile under {folders}: name one with --profile; `flashinfer-bench trace` and `decompose` write them"
        )
    return [Profile.load(each) for each in found]


def profile_files(roots: Sequence[Path]) -> Iterator[Path]:
    """Find the profiles of a dataset."""
    from flashinfer_bench.data.layout import Layout, files_under  # noqa: PLC0415  # pydantic

    for root in roots:
        yield from sorted(map(Path, files_under(Layout(root).profiles, ".json")))


def weighed(
    trace_set: TraceSet, profiles: Sequence[Profile], *, mixes_hardware: bool = False
) -> list[ModelWorth]:
    """Weigh a dataset's traces by profiles."""
    found = standing(trace_set.rows(), current_hashes(trace_set), mixes_hardware=mixes_hardware)
    weak = _weak(trace_set)
    return [worth for profile in profiles for worth in model_worth(profile, found, weak)]


def _weak(trace_set: TraceSet) -> dict[str, list[str]]:
    """Collect what wrong kernels do that are known to pass, by definition."""
    found: dict[str, dict[str, None]] = {}
    for definition, traces in trace_set.workloads.items():
        for trace in traces:
            if trace.workload.weak:
                found.setdefault(definition, {}).update(dict.fromkeys(trace.workload.weak))
    return {definition: list(said) for definition, said in found.items()}
