"""`flashinfer-bench trace`: run a program, and write down what it calls."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import dataset_paths, load_dataset
from flashinfer_bench.cli.options import json_option, local_option, log_level_option
from flashinfer_bench.errors import UsageError
from flashinfer_bench.report.tracing import TracedRun, TracedUse, traced_page
from flashinfer_bench.text.tables import page_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.tracing.session import TracingFolder, TracingRequest

_PATIENCE_S = 60.0
_BY_SIGNAL = 128


@click.command(
    "trace",
    cls=Command,
    examples=[
        "flashinfer-bench trace --local my_dataset -- python generate.py --tokens 64",
        "flashinfer-bench trace --filter keep_first_k_by_axes --k 3 --dump dump_all -- python serve.py",
        "flashinfer-bench trace --adapters adapters.py --model llama-tiny -- python -m my_package",
    ],
    context_settings={"allow_interspersed_args": False},
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@local_option
@click.option(
    "--model",
    metavar="NAME",
    help="Model's name in the profile.  [default: the program's script or module]",
)
@click.option(
    "--adapters",
    multiple=True,
    metavar="FILE",
    help="Python file that calls `register_adapter`; several times for several.",
)
@click.option(
    "--filter",
    "filter_policy",
    metavar="POLICY",
    help="Which calls become workloads: keep_all, keep_first_k, keep_first_k_by_axes, attention, …  "
    "[default: one of each size; attention: one of each average length]",
)
@click.option("--k", type=click.IntRange(min=1), help="How many, for the filters that count.")
@click.option(
    "--dump",
    "input_dump_policy",
    default="dump_int",
    show_default=True,
    metavar="POLICY",
    help="Which inputs are written down and not drawn at random: dump_all, dump_int, dump_none, or names: q,mask.",
)
@json_option
@log_level_option
@click.pass_context
def trace(
    ctx: click.Context,
    /,
    *,
    program: tuple[str, ...],
    local: tuple[str, ...],
    model: str | None,
    adapters: tuple[str, ...],
    as_json: bool,
    **policies: Any,
) -> None:
    """Run a program, and record its kernels' calls as workloads and as a model's profile.

    The program need not be changed. The command records calls that go through `fib.apply`, and calls of
    functions and modules that adapters know: PyTorch's, FlashInfer's, and your own with --adapters. Each call
    is matched to the dataset's definitions. New workloads are appended to the dataset. The counts become a
    model's profile in its `profiles/`, for `report model`.

    The program keeps stdout, and its exit code is the command's; stderr says what was written. With --json
    stdout says it, and the program's output goes to stderr.
    """
    root = _one_dataset(local)
    request = _request(root, adapters, policies)
    load_dataset([str(root)])  # a broken one is refused before the program runs
    with tempfile.TemporaryDirectory(prefix="fib-trace-") as folder:
        from flashinfer_bench.tracing.session import TracingFolder  # noqa: PLC0415  # pydantic

        session = TracingFolder(Path(folder))
        exit_code = _run(program, session.prepare(request), hides_output=as_json)
        run = _written(session, root, model or _name_of(program), shlex.join(program), exit_code)
    if as_json:
        screen.show_json({"schema_version": 1, "trace": run})
    else:
        click.echo(page_text(traced_page(run)), err=True)
    ctx.exit(exit_code or (UsageError.exit_code if run.failure else 0))


def _one_dataset(local: Sequence[str]) -> Path:
    paths = dataset_paths(local)
    if len(paths) > 1:
        raise UsageError("trace writes into one dataset, and --local names several: give it once")
    return paths[0].resolve()


def _request(root: Path, adapters: Sequence[str], policies: Mapping[str, Any]) -> TracingRequest:
    """Read the options, and refuse policies that are not there before the program runs."""
    from flashinfer_bench.tracing.presets import chosen_configs  # noqa: PLC0415
    from flashinfer_bench.tracing.session import TracingRequest  # noqa: PLC0415

    for file in adapters:
        if not Path(file).is_file():
            raise UsageError(f"--adapters {file}: no such file")
    k, dump = policies["k"], policies["input_dump_policy"]
    if k is not None and policies["filter_policy"] is None:
        raise UsageError("--k counts for a --filter: name one, such as keep_first_k_by_axes")
    request = TracingRequest(
        dataset=str(root),
        adapters=[str(Path(each).resolve()) for each in adapters],
        filter_policy=policies["filter_policy"],
        filter_policy_kwargs={} if k is None else {"k": k},
        input_dump_policy=dump if dump.startswith("dump_") else dump.split(","),
    )
    if not adapters:  # those files may register policies
        chosen_configs(
            request.filter_policy, request.filter_policy_kwargs, request.input_dump_policy
        )
    return request


def _run(program: Sequence[str], environment: Mapping[str, str], *, hides_output: bool) -> int:
    """Run the program to its end; an interrupt ends it too, and is then its exit code."""
    try:
        process = subprocess.Popen(
            program, env=dict(environment), stdout=2 if hides_output else None
        )
    except FileNotFoundError:
        hint = f"; did you mean `python {program[0]}`?" if program[0].endswith(".py") else ""
        raise UsageError(f"there is no program {program[0]!r}{hint}") from None
    except PermissionError:
        raise UsageError(
            f"{program[0]!r} is no program; did you mean `python {program[0]}`?"
        ) from None
    try:
        code = process.wait()
    except KeyboardInterrupt:
        code = _ended(process)
    return code if code >= 0 else _BY_SIGNAL - code


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Ask a program to end, so that it can flush; one that does not listen is killed."""
    process.terminate()
    try:
        return process.wait(_PATIENCE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        return process.wait()


def _name_of(program: Sequence[str]) -> str:
    """Name a model after what runs it: the script, or the module after `-m`.

    >>> _name_of(["python", "-u", "examples/generate.py", "--fast"])
    'generate'
    >>> _name_of(["torchrun", "-m", "llama.serve"])
    'llama.serve'
    """
    if "-m" in program[:-1]:
        return program[program.index("-m") + 1]
    script = next((each for each in program if each.endswith(".py")), program[0])
    return Path(script).stem


def _written(
    session: TracingFolder, root: Path, model: str, command: str, exit_code: int
) -> TracedRun:
    """Add the processes up, and write the profile."""
    reports = session.reports()
    counts: Counter[tuple[str, tuple[tuple[str, int], ...]]] = Counter()
    for report in reports:
        for use in report.uses:
            counts[use.definition, tuple(use.axes.items())] += use.count
    uses = [TracedUse(name, dict(axes), count) for (name, axes), count in counts.items()]
    return TracedRun(
        command=command,
        exit_code=exit_code,
        processes=len(reports),
        dataset=str(root),
        profile=str(_save_profile(root, model, uses)) if uses else None,
        uses=uses,
        workloads=_sum(report.workloads for report in reports),
        repeated=_sum(report.repeated for report in reports),
        lost=_sum(report.lost for report in reports),
        blob_bytes=sum(report.blob_bytes for report in reports),
        unknown=_sum(report.unknown for report in reports),
        failure=session.failure(),
    )


def _sum(parts: Any) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def _save_profile(root: Path, model: str, uses: Sequence[TracedUse]) -> Path:
    from flashinfer_bench.data import (  # noqa: PLC0415  # pydantic
        KernelReference,
        KernelUse,
        Profile,
        save_json_file,
    )
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415

    kernels = [
        KernelUse(kernel=KernelReference(definition=use.definition, axes=use.axes), count=use.count)
        for use in uses
    ]
    path = Layout(root).profile_file("PyTorch", model)
    save_json_file(Profile(model=model, framework="PyTorch", kernels=kernels), path)
    return path
