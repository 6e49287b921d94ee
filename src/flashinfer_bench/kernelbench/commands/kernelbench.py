"""Fetch KernelBench's problems; judge and time candidates for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.bench.run_settings import known_settings
from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command, CommandGroup, ManyOption
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.cli.setting_options import setting_options
from flashinfer_bench.kernelbench.commands.evaluation import SETTINGS, EvalOptions, evaluate
from flashinfer_bench.kernelbench.library import DEFAULT_LIBRARY
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import heading, paragraph

if TYPE_CHECKING:
    from flashinfer_bench.kernelbench.fetching import Fetched
    from flashinfer_bench.text.tables import Page

_HELPS = {
    name: f"{word} tolerance.  [default: {known_settings()[name].default_text}, or less: see above]"
    for name, word in (("rtol", "Relative"), ("atol", "Absolute"))
}


@click.group(
    cls=CommandGroup,
    examples=[
        "flashinfer-bench kernelbench fetch data/kernelbench",
        "flashinfer-bench kernelbench eval 1/19 model_new.py",
    ],
)
def kernelbench() -> None:
    """Fetch KernelBench's problems; judge and time candidates for them."""


@kernelbench.command(
    cls=Command,
    document={"fetch": "flashinfer_bench.kernelbench.fetching:Fetched"},
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
    """Fetch the problems of levels 1 to 3 with git, and name those of the documented 251 that are missing.

    The first fetch takes the branch `main` and writes its commit to DIR/manifest.txt. Later fetches take that
    commit, until `--revision` names another. Keep the manifest under version control, and everyone works on the
    same files. Files that were edited are written again.
    """
    from flashinfer_bench.kernelbench.fetching import fetch as bring  # noqa: PLC0415  # rarely needed

    fetched = bring(folder, revision=revision, repository=repository)
    if as_json:
        screen.show_json({"schema_version": 1, "fetch": fetched})
    else:
        screen.show(fetched_page(fetched))


def fetched_page(fetched: Fetched) -> Page:
    """Show what was brought, and what was not to be had."""
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


@kernelbench.command(
    "eval",
    cls=Command,
    document={"eval": "flashinfer_bench.kernelbench.results:EvalReport"},
    examples=[
        "flashinfer-bench kernelbench eval 1/19 model_new.py",
        "flashinfer-bench kernelbench eval examples/kernelbench/level1/13_Swish.py model_new.py --device cpu",
        "flashinfer-bench kernelbench eval 2/40 model_new.py --baselines eager,compile",
        "flashinfer-bench kernelbench eval --samples runs/my_model --json",
    ],
)
@click.argument("problem", metavar="[ID]", required=False)
@click.argument(
    "candidate",
    metavar="[MODEL_NEW.py]",
    required=False,
    type=click.Path(path_type=Path, dir_okay=False),
)
@click.option(
    "--samples",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Candidates named level_1_problem_19_sample_0_kernel.py, instead of one file; ID then leaves out "
    "other problems, or is the number of a level.",
)
@click.option(
    "--dataset",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_LIBRARY,
    show_default=True,
    metavar="DIR",
    help="Folder with level1 to level3.",
)
@click.option(
    "--baselines",
    default="eager",
    show_default=True,
    metavar="NAMES",
    help="What candidates are compared with: eager, compile (torch.compile of Model), or eager,compile.",
)
@click.option(
    "--seeds",
    cls=ManyOption,
    type=click.IntRange(min=0, max=2**31),
    metavar="SEED...",
    help="Seeds of the weights; a candidate is right if it is with each.  [default: 42]",
)
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="cpu, or cuda:0.")
@setting_options(*SETTINGS, helps=_HELPS)
@json_option
@log_level_option
def eval_(**options: Any) -> None:
    """Judge and time a candidate, the class ModelNew of a file, against a problem's Model.

    ID is LEVEL/NUMBER, a problem's name, or the path of any file in KernelBench's format. **Both files are
    run**: the problem in a process with your rights, the candidate in the sandbox of any solution.

    Model is built under a seed. ModelNew gets its parameters and buffers by name and shape; others are what the
    same seed makes of them. Inputs follow get_inputs in shape, type and distribution (integers stay integers of
    its range), with other content in every call; inputs with a structure that no distribution keeps are passed
    as get_inputs makes them. A result is wrong if an element is off by more than both tolerances. These are
    KernelBench's, but at most a hundredth of the size of the outputs and a tenth of what other inputs change in
    them.

    The audit, the isolation and the timing are those of `run`. Exits with 1 when a candidate is not right.
    """
    exit_code = evaluate(EvalOptions(**options))
    click.get_current_context().exit(exit_code)
