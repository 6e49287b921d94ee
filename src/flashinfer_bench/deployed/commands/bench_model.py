"""Measure a model with a dataset's solutions against the model without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command, ManyOption
from flashinfer_bench.cli.options import SECONDS, SHARE, json_option, log_level_option
from flashinfer_bench.deployed.results import MODES, PHASES, ModelReport
from flashinfer_bench.deployed.screens import model_report_page
from flashinfer_bench.errors import DeviceError, UsageError

_POSITIVE = click.IntRange(min=1)
_SHARES = {"prefill": 0.5, "decode": 0.5}


class _PhaseShares(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions
    name = "shares"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, float]:
        """Read prefill=0.2,decode=0.8."""
        try:
            pairs = dict(each.split("=") for each in str(value).split(","))
            shares = {name.strip(): float(share) for name, share in pairs.items()}
        except ValueError:
            self.fail(f"{value!r} is not written as prefill=0.2,decode=0.8", param, ctx)
        if set(shares) != set(PHASES) or min(shares.values()) < 0 or sum(shares.values()) <= 0:
            self.fail(f"{value!r}: give prefill and decode, neither below 0", param, ctx)
        return {name: share / sum(shares.values()) for name, share in shares.items()}


@click.command(
    "bench-model",
    cls=Command,
    document={"model": "flashinfer_bench.deployed.results:ModelReport"},
    examples=[
        "flashinfer-bench bench-model llama.py --with my_dataset",
        "flashinfer-bench bench-model config.json --with my_dataset --modes eager compiled --rows 8 --prompt 512",
        "flashinfer-bench bench-model llama.py --with my_dataset --solutions rmsnorm_cpp --json",
    ],
)
@click.argument("model", metavar="MODEL")
@click.option(
    "--with",
    "candidate",
    required=True,
    metavar="DATASET",
    help="Dataset whose best solutions the candidate has.",
)
@click.option(
    "--against",
    "baseline",
    metavar="DATASET",
    help="Dataset whose best solutions the baseline has.  [default: the model's own code]",
)
@click.option(
    "--solutions",
    cls=ManyOption,
    metavar="NAME...",
    help="The candidate has these only, and each must answer.  [default: all winners]",
)
@click.option(
    "--modes",
    cls=ManyOption,
    type=click.Choice(MODES),
    default=MODES,
    show_default=True,
    help="As it is, by torch.compile, as CUDA graphs, compiled and then recorded as graphs.",
)
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="cpu, or cuda:0.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="Of the weights.  [default: float32 on a CPU, else bfloat16]",
)
@click.option("--rows", type=_POSITIVE, default=4, show_default=True, help="Prompts in a batch.")
@click.option("--prompt", type=_POSITIVE, default=64, show_default=True, help="Tokens of each.")
@click.option(
    "--steps", type=_POSITIVE, default=16, show_default=True, help="Tokens that follow a prompt."
)
@click.option(
    "--shares",
    type=_PhaseShares(),
    default="prefill=0.5,decode=0.5",
    show_default=True,
    metavar="SHARES",
    help="Shares of the device's time, for `report score`; they change nothing here.",
)
@click.option("--family", metavar="NAME", help="Family of models.  [default: the file's name]")
@click.option(
    "--rounds",
    type=_POSITIVE,
    default=12,
    show_default=True,
    help="Pairs of fresh processes; with fewer than six the interval leaves out how processes differ.",
)
@click.option(
    "--blocks", type=_POSITIVE, default=10, show_default=True, help="Samples of each in a round."
)
@click.option(
    "--sample-time",
    type=SECONDS,
    default="50ms",
    show_default=True,
    metavar="TIME",
    help="Steps are repeated until a sample takes about so long.",
)
@click.option(
    "--threshold",
    type=SHARE,
    default="2%",
    show_default=True,
    metavar="SHARE",
    help="Treat differences up to this as equal.",
)
@click.option("--threads", type=_POSITIVE, help="CPU threads of each process.")
@click.option(
    "--clock",
    type=click.Choice(["wall", "cpu"]),
    default="wall",
    show_default=True,
    help="cpu: the processor time of the process, which others on the machine disturb less.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of weights and tokens.")
@click.option(
    "--timeout",
    type=SECONDS,
    default="600s",
    show_default=True,
    help="For one answer of a process.",
)
@json_option
@log_level_option
def bench_model(**options: Any) -> None:
    """Measure a model with a dataset's solutions against the model without.

    MODEL is a Python file whose class Model holds a decoder of transformers, or a configuration of
    transformers (`config.json` with its `model_type`); weights are random. Both sides run in fresh processes
    every round, timed in turns: reading prompts (prefill), and a token at a time (decode).

    First the candidate reads the baseline's tokens. Its logits' error against higher precision, and how often
    it chooses another token, must lie within what the baseline shows against itself in other batches. A
    candidate that answers no call is an error.

    Exits with 1 where the candidate failed in a mode, whatever the verdicts.
    """
    click.get_current_context().exit(_bench(options))


def _bench(options: dict[str, Any]) -> int:
    from flashinfer_bench.deployed.processes import SideFailedError  # noqa: PLC0415  # what it needs is slow
    from flashinfer_bench.deployed.rounds import ModelQuestion, measure  # noqa: PLC0415

    if not Path(options["model"]).is_file():
        raise UsageError(
            f"{options['model']}: no such file; MODEL is a Python file or a config.json"
        )
    for name in (options["candidate"], options["baseline"]):
        if name is not None and not Path(name).is_dir():
            raise UsageError(f"{name}: no such folder; a dataset is a folder")
    device = _device(options["device"])
    is_cpu = device == "cpu"
    if options["clock"] == "cpu" and not is_cpu:
        raise UsageError("--clock cpu times processors; on a GPU use wall")
    question = ModelQuestion(
        path=str(Path(options["model"]).resolve()),
        device=device,
        dtype=options["dtype"] or ("float32" if is_cpu else "bfloat16"),
        rows=options["rows"],
        prompt=options["prompt"],
        steps=options["steps"],
        seed=options["seed"],
        threads=options["threads"],
        clock=options["clock"],
        candidate=str(Path(options["candidate"]).resolve()),
        baseline=options["baseline"] and str(Path(options["baseline"]).resolve()),
        solutions=tuple(options["solutions"]),
        modes=tuple(dict.fromkeys(options["modes"])),
        rounds=options["rounds"],
        blocks=options["blocks"],
        sample_ms=options["sample_time"] * 1e3,
        threshold=options["threshold"],
        timeout_s=options["timeout"],
    )
    try:
        results, hardware = measure(question, log.inform)
    except SideFailedError as error:
        raise UsageError(f"{options['model']} does not run: {error}") from error
    name = Path(options["model"]).stem
    report = ModelReport(
        model=name,
        family=options["family"] or name,
        hardware=hardware,
        device=device,
        dtype=question.dtype,
        rows=question.rows,
        prompt=question.prompt,
        steps=question.steps,
        threads=question.threads,
        clock=question.clock,
        rounds=question.rounds,
        blocks=question.blocks,
        threshold=question.threshold,
        baseline=options["baseline"] or "the model's own code",
        candidate=options["candidate"],
        solutions=question.solutions,
        shares=options["shares"],
        modes=tuple(results),
    )
    exit_code = 1 if any(each.status == "failed" for each in results) else 0
    if not exit_code and all(each.status == "skipped" for each in results):
        exit_code = DeviceError.exit_code
    if options["as_json"]:
        screen.show_json({"schema_version": 1, "model": report}, exit_code)
    else:
        screen.show(model_report_page(report))
    return exit_code


def _device(name: str) -> str:
    """Take the named device, or the first GPU, or the CPU."""
    from flashinfer_bench.tensors.machine import gpu_names  # noqa: PLC0415

    gpus = [f"cuda:{at}" for at, _ in enumerate(gpu_names())]
    if name == "auto":
        return gpus[0] if gpus else "cpu"
    if name == "cuda" and gpus:
        return gpus[0]
    if name != "cpu" and name not in gpus:
        known = ", ".join(("cpu", *gpus))
        raise UsageError(f"--device {name}: this machine has {known}")
    return name
