"""`flashinfer-bench new`: a definition from a function, a solution from a definition."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command, CommandGroup, ManyOption
from flashinfer_bench.cli.dataset.definition_files import DefinitionOptions, make_definition
from flashinfer_bench.cli.datasets import dataset_paths, find_definition, load_dataset
from flashinfer_bench.cli.options import json_option, log_level_option
from flashinfer_bench.errors import UsageError
from flashinfer_bench.text.tables import heading, paragraph

if TYPE_CHECKING:
    from flashinfer_bench.data import Definition, Solution, TraceSet

LANGUAGES = ("python", "triton", "cpp", "cuda", "tilelang")

_dataset_option = click.option(
    "--local",
    metavar="DIR",
    help="Dataset folder.  [default: FIB_DATASET_PATH, else ~/.cache/flashinfer_bench/dataset]",
)


@click.group(
    cls=CommandGroup,
    examples=[
        "flashinfer-bench new definition --from my_ops.py::rmsnorm --local my_dataset",
        "flashinfer-bench new solution --definition rmsnorm_h4096 --language triton --local my_dataset",
    ],
)
def new() -> None:
    """Start a definition or a solution, without writing JSON."""


@new.command(
    cls=Command,
    examples=[
        "flashinfer-bench new definition --from my_ops.py::rmsnorm --local my_dataset",
        "flashinfer-bench new definition --from my_ops.py::rmsnorm --axes x=tokens,hidden weight=hidden",
        "flashinfer-bench new definition --from my_ops.py::rmsnorm --backward --local my_dataset",
    ],
)
@click.argument("name", required=False)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="FILE.py::FUNCTION",
    help="The function that computes what is right.",
)
@_dataset_option
@click.option(
    "--op-type", metavar="NAME", help="Family of operations.  [default: the function's name]"
)
@click.option(
    "--axes",
    cls=ManyOption,
    metavar="TENSOR=AXIS,...",
    help="Names of an input's or output's axes; `_` leaves one open.",
)
@click.option(
    "--inputs",
    metavar="FUNCTION",
    help="Function of the file that gives example inputs.  "
    "[default: example_inputs, get_inputs, or the parameters' defaults]",
)
@click.option(
    "--backward",
    is_flag=True,
    help="Also define its gradients: NAME_backward, and NAME_forward_backward for both in one call.",
)
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="cpu, or cuda:0.")
@json_option
@log_level_option
def definition(**options: Any) -> None:
    """Make a definition and its first workloads from a Python function.

    The function is run on example inputs. A function `example_inputs()` in the same file returns them: a dict
    (or a tuple) of tensors and numbers, or several of them. Lengths that differ between these become variable
    axes, the others constants. The whole file becomes the reference. At the end the reference is run as a
    benchmark would run it.

    With --backward two more are made. NAME_backward takes the inputs and a gradient `grad_<output>` for each
    differentiable output, and gives `grad_<input>` for each float input that an output depends on.
    NAME_forward_backward gives the outputs, too. References use autograd; their workloads bound the error
    against float64.

    Exits with 1 if the new definition fails its own check.
    """
    exit_code = make_definition(DefinitionOptions(**options))
    click.get_current_context().exit(exit_code)


@new.command(
    cls=Command,
    examples=[
        "flashinfer-bench new solution --definition rmsnorm_h4096 --language cpp --local my_dataset",
        "flashinfer-bench new solution fast --definition rmsnorm_h4096 --language triton --author me",
        "flashinfer-bench new solution fast --definition rmsnorm_h4096 --from kernel.cpp --local my_dataset",
    ],
)
@click.argument("name", required=False)
@click.option("--definition", required=True, metavar="NAME", help="What it is to implement.")
@click.option(
    "--language",
    type=click.Choice(LANGUAGES),
    help="What it is written in; with --from that is told by the file.",
)
@click.option(
    "--from",
    "kernel",
    metavar="FILE",
    help="Keep a kernel file, as `check` takes it, instead of one that returns zeros.",
)
@click.option(
    "--entry-point",
    metavar="FUNCTION",
    help="With --from: the function to call.  [default: as `check` finds it]",
)
@click.option("--author", default="me", show_default=True, metavar="NAME", help="Who writes it.")
@_dataset_option
@json_option
@log_level_option
def solution(  # noqa: PLR0917  # options arrive by name
    name: str | None,
    definition: str,
    language: str | None,
    kernel: str | None,
    entry_point: str | None,
    author: str,
    local: str | None,
    as_json: bool,
) -> None:
    """Make a solution to fill in: a folder with a `solution.toml` and a source file.

    It builds and runs as it is, and returns zeros: `check` says how far off it is. With --from it is a kernel
    that you have: the file, and headers it includes from its folder.
    """
    from flashinfer_bench.data import unpack  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415

    trace_set = load_dataset([local] if local else [])
    root = dataset_paths([local] if local else [])[0]
    found = find_definition(trace_set, definition)
    if kernel is not None:
        made = _kept(
            trace_set, found, Path(kernel), _KeptKernel(name, author, language, entry_point)
        )
    elif language is None or entry_point is not None:
        raise UsageError(
            "--entry-point is for --from FILE; leave it out"
            if language
            else "say what it is written in with --language, or name a kernel with --from FILE"
        )
    else:
        free = _free_name(trace_set, name, f"{definition}_{language}")
        made = _solution(found, language, author, free)
    folder = unpack(made, Layout(root).solution_file(made, found.op_type).with_suffix(""))
    entry = folder / made.spec.entry_point.partition("::")[0]
    words = ["check", str(folder), *(["--local", local] if local else [])]
    if as_json:
        written = {"solution": made.name, "folder": str(folder), "entry": str(entry)}
        screen.show_json({"schema_version": 1, "new": written})
        return
    screen.show(
        (
            heading(f"solution {made.name} by {author}"),
            paragraph(
                f"{'source ' if kernel else 'fill in'}   {entry}",
                f"settings  {folder / 'solution.toml'}",
                f"then      flashinfer-bench {shlex.join(words)}",
            ),
        )
    )


class _KeptKernel(NamedTuple):
    """What was said of a kernel that is kept."""

    name: str | None
    author: str
    language: str | None
    entry_point: str | None


def _kept(trace_set: TraceSet, definition: Definition, file: Path, said: _KeptKernel) -> Solution:
    """Make a solution of a kernel file; it is for the devices that its language runs on."""
    from flashinfer_bench.cli.measure.kernel_files import Hints, solution_from  # noqa: PLC0415

    if not file.is_file():
        raise UsageError(f"--from {file}: no such file")
    made = solution_from(file, definition, Hints(said.language, said.entry_point))
    language = made.spec.language.value
    hardware = {"cpp": ["cpu"], "cuda": ["cuda"]}.get(language, ["cpu", "cuda"])
    name = _free_name(trace_set, said.name, f"{definition.name}_{language}")
    spec = made.spec.model_copy(update={"target_hardware": hardware})
    return made.model_copy(update={"name": name, "author": said.author, "spec": spec})


def _solution(definition: Definition, language: str, author: str, name: str) -> Solution:
    from flashinfer_bench.cli.dataset.skeletons import skeleton_for  # noqa: PLC0415
    from flashinfer_bench.data import Solution  # noqa: PLC0415  # pydantic

    skeleton = skeleton_for(definition, language)
    spec = {
        "language": language,
        "target_hardware": list(skeleton.target_hardware),
        "entry_point": f"{skeleton.path}::run",
        "dependencies": list(skeleton.dependencies),
        "destination_passing_style": skeleton.is_into,
        "binding": skeleton.binding,
    }
    content = {"path": skeleton.path, "content": skeleton.text}
    return Solution.model_validate(
        {
            "name": name,
            "definition": definition.name,
            "author": author,
            "spec": spec,
            "sources": [content],
        }
    )


def _free_name(trace_set: TraceSet, wanted: str | None, default: str) -> str:
    """Refuse a name that is taken; number the default one until it is free."""
    if wanted is not None and trace_set.get_solution(wanted) is not None:
        raise UsageError(f"there is a solution {wanted!r} already; choose another name")
    if wanted is not None:
        return wanted
    number, name = 1, default
    while trace_set.get_solution(name) is not None:
        number += 1
        name = f"{default}_{number}"
    return name
