"""`flashinfer-bench init`: the folders of a new dataset."""

from __future__ import annotations

from pathlib import Path

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.data.layout import DATASET_FOLDERS
from flashinfer_bench.errors import UsageError
from flashinfer_bench.text.tables import heading, paragraph

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
    examples=["flashinfer-bench init my_dataset", "flashinfer-bench init . --force"],
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--force",
    is_flag=True,
    help="Take a folder that is not empty; what is there stays as it is.",
)
@json_option
@log_level_option
def init(folder: str, force: bool, as_json: bool) -> None:
    """Make the folders of a dataset, with a README of the next steps."""
    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise UsageError(f"{folder} is a file")
    if root.is_dir() and any(root.iterdir()) and not force:
        raise UsageError(
            f"{folder} is not empty; --force adds to it, and leaves what is there alone"
        )
    _make(root)
    if as_json:
        made = {"dataset": str(root), "folders": [str(root / name) for name in DATASET_FOLDERS]}
        screen.show_json({"schema_version": 1, "init": made})
        return
    screen.show(
        (
            heading(f"dataset {root}"),
            paragraph(
                f"folders  {', '.join(DATASET_FOLDERS)}",
                f"then     flashinfer-bench new definition --from my_ops.py::my_op --local {root}",
            ),
        )
    )


def _make(root: Path) -> None:
    from flashinfer_bench.data.appending import make_folders  # noqa: PLC0415  # msgspec
    from flashinfer_bench.data.files import write_whole  # noqa: PLC0415

    for name in DATASET_FOLDERS:
        make_folders((root / name).absolute())
    texts = {"README.md": _README.format(name=root.resolve().name), ".gitignore": _IGNORED}
    for name, text in texts.items():
        if not (root / name).exists():
            write_whole(root / name, text.encode())
