"""`flashinfer-bench init`: the folders of a new dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.data.layout import DATASET_FOLDERS
from flashinfer_bench.errors import UsageError
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import heading, paragraph

if TYPE_CHECKING:
    from collections.abc import Mapping

_IGNORED = """\
# what Python, `validate` and repairs leave behind
__pycache__/
reports/
*.torn
*.gone
# traces can be kept under version control or not; to leave them out:
# traces/
# traces_bak_*/
"""
_README = """\
# {name}

A dataset for [FlashInfer-Bench](https://github.com/flashinfer-ai/flashinfer-bench).

```
definitions/<op_type>/<definition>.json             what a kernel computes
workloads/<op_type>/<definition>.jsonl              the sizes it is run at, one a line
solutions/<author>/<op_type>/<definition>/<name>/   solution.toml and source files
traces/<author>/<op_type>/<definition>.jsonl        results, one a line
```

From a function that computes what is right to a benchmarked kernel:

```bash
flashinfer-bench new definition --from my_ops.py::my_op --local .
flashinfer-bench new solution --definition MY_DEFINITION --language python --local .
flashinfer-bench check solutions/me/MY_OP_TYPE/MY_DEFINITION/MY_DEFINITION_python --local .
flashinfer-bench run --local .
flashinfer-bench validate --local .
```
"""


@click.command(
    cls=Command,
    examples=[
        "flashinfer-bench init my_dataset",
        "flashinfer-bench init . --force",
        "flashinfer-bench init my_dataset --baseline flashinfer",
    ],
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--force",
    is_flag=True,
    help="Take a folder that is not empty; what is there stays as it is.",
)
@click.option(
    "--baseline",
    type=click.Choice(["flashinfer"]),
    help="Write this library's kernels as baseline solutions of the definitions it covers; DIR may be full.",
)
@json_option
@log_level_option
def init(folder: str, force: bool, baseline: str | None, as_json: bool) -> None:
    """Make the folders of a dataset, with a README of the next steps."""
    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise UsageError(f"{folder} is a file")
    if root.is_dir() and any(root.iterdir()) and not (force or baseline):
        raise UsageError(
            f"{folder} is not empty; --force adds to it, and leaves what is there alone"
        )
    _make(root)
    written = None if baseline is None else _write_baselines(root)
    if as_json:
        made: dict[str, Any] = {"dataset": str(root)}
        made["folders"] = [str(root / name) for name in DATASET_FOLDERS]
        if written is not None:
            made["baselines"] = written
        screen.show_json({"schema_version": 1, "init": made})
        return
    lines = [f"folders  {', '.join(DATASET_FOLDERS)}"]
    lines += _then(root) if written is None else _baseline_lines(written)
    screen.show((heading(f"dataset {root}"), paragraph(*lines)))


def _then(root: Path) -> list[str]:
    return [f"then     flashinfer-bench new definition --from my_ops.py::my_op --local {root}"]


def _write_baselines(root: Path) -> dict[str, Any]:
    """Write a solution for each definition that is covered; one that is there already stays."""
    from flashinfer_bench.cli.dataset.flashinfer_baselines import (  # noqa: PLC0415
        NotCoveredError,
        solution_of,
    )
    from flashinfer_bench.data import save_json_file  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415

    definitions = load_dataset([str(root)]).definitions
    if not definitions:
        raise UsageError(
            f"{root} has no definitions that --baseline could cover: bring some first, "
            "such as with `flashinfer-bench import flashinfer-trace`"
        )
    written: list[str] = []
    kept: list[str] = []
    left: dict[str, str] = {}
    for definition in definitions.values():
        try:
            solution = solution_of(definition)
        except NotCoveredError as error:
            left[definition.name] = str(error)
            continue
        file = Layout(root).solution_file(solution, definition.op_type)
        (kept if file.exists() else written).append(str(file))
        if not file.exists():
            save_json_file(solution, file)
    return {"library": "flashinfer", "written": written, "kept": kept, "left": left}


def _baseline_lines(found: Mapping[str, Any]) -> list[str]:
    there = f", {len(found['kept'])} were there already" if found["kept"] else ""
    lines = [f"flashinfer  {count_text(len(found['written']), 'baseline')} written{there}"]
    return lines + [f"  left {name}: {why}" for name, why in found["left"].items()]


def _make(root: Path) -> None:
    from flashinfer_bench.data.appending import make_folders  # noqa: PLC0415  # msgspec
    from flashinfer_bench.data.files import write_whole  # noqa: PLC0415

    for name in DATASET_FOLDERS:
        make_folders((root / name).absolute())
    texts = {"README.md": _README.format(name=root.resolve().name), ".gitignore": _IGNORED}
    for name, text in texts.items():
        if not (root / name).exists():
            write_whole(root / name, text.encode())
