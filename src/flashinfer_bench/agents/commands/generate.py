"""Ask a language model for kernels, judge them, and keep those that hold on workloads it never saw."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.agents.tools import LANGUAGES
from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.boundary import INTERRUPTED
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import find_definition, load_dataset, require_writable_place
from flashinfer_bench.cli.options import SECONDS, dataset_options, json_option, log_level_option
from flashinfer_bench.cli.setting_options import setting_options
from flashinfer_bench.data import settings as environment
from flashinfer_bench.report.generation import usd_text
from flashinfer_bench.text.numbers import NOTHING, speedup_text
from flashinfer_bench.text.tables import RowColumn, heading, paragraph, rows_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.agents.generation.results import CandidateLine, GenerationReport
    from flashinfer_bench.agents.generation.rounds import GeneratedCandidate, Search
    from flashinfer_bench.data import Solution, Trace, TraceSet
    from flashinfer_bench.text.tables import Page

_QUICK: dict[str, Any] = {
    "warmup_runs": 3,
    "iterations": 20,
    "num_trials": 1,
    "timeout_seconds": 20,
    "build_timeout_seconds": 120,
}
_FEEDBACK_TOKENS = 1_500


class _TokenPrices(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions
    """Two prices, written as 3,15."""

    name = "prices"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """Read both prices."""
        try:
            sent, received = map(float, str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no pair of prices such as 3,15", param, ctx)
        if not (0 <= sent < math.inf and 0 <= received < math.inf):
            self.fail(f"{value!r} must be prices of 0 or more", param, ctx)
        return sent, received


@click.command(
    cls=Command,
    document={"generate": "flashinfer_bench.agents.generation.results:GenerationReport"},
    examples=[
        "flashinfer-bench generate rmsnorm_h4096 --endpoint http://127.0.0.1:8080/v1 --model qwen3",
        "flashinfer-bench generate gemm --endpoint https://api.openai.com/v1 --model M --key-variable OPENAI_API_KEY",
        "flashinfer-bench generate gemm --endpoint http://127.0.0.1:8080/v1 --model M --language cpp --width 4",
    ],
)
@click.argument("definition")
@dataset_options
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Accepted solutions, their traces and the transcript go there.  [default: into the dataset]",
)
@click.option(
    "--endpoint",
    required=True,
    metavar="URL",
    help="Where chat completions are answered, as OpenAI's API does: the address before /chat/completions.",
)
@click.option("--model", required=True, metavar="NAME", help="The model to ask for.")
@click.option(
    "--key-variable",
    default=environment.KEY_VARIABLE,
    show_default=True,
    metavar="NAME",
    help="Environment variable with the endpoint's key; it goes to the endpoint only.",
)
@click.option(
    "--language",
    type=click.Choice(LANGUAGES),
    default="python",
    show_default=True,
    help="What kernels are written in.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How often it is asked.",
)
@click.option(
    "--width",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Kernels asked for in each round; they are built and judged together.",
)
@click.option(
    "--most-tokens",
    type=click.IntRange(min=1),
    default=200_000,
    show_default=True,
    help="Ask no more once so many tokens were sent and received, as the endpoint counts them.",
)
@click.option(
    "--usd-per-million-tokens",
    type=_TokenPrices(),
    metavar="IN,OUT",
    help="What the endpoint takes for a million tokens sent, and received; the cost goes into traces.",
)
@click.option(
    "--most-device-seconds",
    type=SECONDS,
    default="600s",
    show_default=True,
    metavar="SECONDS",
    help="Ask no more once jobs have taken so long.",
)
@click.option(
    "--answer-timeout",
    type=SECONDS,
    default="300s",
    show_default=True,
    metavar="SECONDS",
    help="How long the endpoint may take over one answer.",
)
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="cpu, or cuda:0.")
@setting_options(*_QUICK, "rtol", "atol", "threads", **_QUICK)
@json_option
@log_level_option
def generate(**options: Any) -> None:
    """Ask a language model for kernels, judge them, and keep those that hold on workloads it never saw.

    Half of DEFINITION's workloads are shown to the model, the others decide whether a kernel is accepted; of
    fewer than four all are shown, and three other sizes are drawn. Each round sends the best kernel so far with what
    became of it. Accepted kernels become solutions of the dataset, and their traces say model, parent, prompt and
    cost. Every request and answer is a line of the transcript.

    Exits with 0 when a kernel was accepted, and with 1 when none was. Ctrl-C keeps what is accepted.
    """
    from flashinfer_bench.agents.generation.endpoint import ChatEndpoint  # noqa: PLC0415  # an extra

    key = environment.take_key(options["key_variable"])
    trace_set = load_dataset(options["local"], output=options["output"])
    require_writable_place([trace_set.output] if trace_set.output else trace_set.roots)
    limit_s = options["answer_timeout"]
    with ChatEndpoint(options["endpoint"], options["model"], key, timeout_s=limit_s) as model:
        report = _report(trace_set, model, options)
    exit_code = INTERRUPTED if report.ended_by == "interrupted" else 0 if report.best else 1
    if options["as_json"]:
        screen.show_json({"schema_version": 1, "generate": report}, exit_code)
    else:
        screen.show(_page(report))
    click.get_current_context().exit(exit_code)


def _report(trace_set: TraceSet, model: Any, options: dict[str, Any]) -> GenerationReport:
    """Search to the end, an interruption included; what is accepted is on disk when it is known."""
    from flashinfer_bench.agents.generation.endpoint import EndpointError  # noqa: PLC0415
    from flashinfer_bench.agents.generation.keeping import (  # noqa: PLC0415  # pydantic
        Transcript,
        keep,
        transcript_file,
    )
    from flashinfer_bench.agents.generation.results import (  # noqa: PLC0415
        GenerationReport,
        best_of,
        candidate_line,
        split_text,
    )

    root = trace_set.output or trace_set.roots[0]
    transcript = Transcript(transcript_file(root, options["definition"]))
    search = _search(trace_set, model, options, transcript)
    log.inform(split_text(search.split))
    lines: list[CandidateLine] = []
    ended_by = "rounds"
    try:
        for each in search.run():
            is_new = each.verdict == "accepted" and not _is_known(lines, each)
            folder = keep(trace_set, search.definition, each) if is_new else None
            lines.append(candidate_line(each, folder))
            log.inform(_line_text(lines[-1]))
        ended_by = "budget" if search.spent.is_over(search.limits) else ended_by
    except KeyboardInterrupt:
        ended_by = "interrupted"
    except EndpointError as error:
        if not lines:
            raise
        ended_by = str(error)
        log.warn(ended_by)
    spent = search.spent
    return GenerationReport(
        definition=search.definition.name,
        language=search.language,
        model=model.model,
        endpoint=model.address,
        visible=len(search.split.visible),
        held_out=len(search.split.held_out),
        is_drawn=search.split.is_drawn,
        candidates=tuple(lines),
        best=best_of(lines),
        prompt_tokens=spent.prompt_tokens,
        completion_tokens=spent.completion_tokens,
        device_s=round(spent.device_s, 3),
        cost_usd=spent.cost_usd(search.prices),
        transcript=str(transcript.file),
        ended_by=ended_by,
    )


def _is_known(lines: Sequence[CandidateLine], candidate: GeneratedCandidate) -> bool:
    """Tell whether the same code was accepted before."""
    hashes = {each.solution_hash for each in lines if each.verdict == "accepted"}
    return candidate.solution is not None and candidate.solution.hash() in hashes


def _search(trace_set: TraceSet, model: Any, options: dict[str, Any], transcript: Any) -> Search:
    from flashinfer_bench.agents.generation.rounds import (  # noqa: PLC0415
        GenerationLimits,
        Search,
        TokenPrices,
    )
    from flashinfer_bench.agents.generation.splitting import split_workloads  # noqa: PLC0415
    from flashinfer_bench.bench import Benchmark, BenchmarkConfig  # noqa: PLC0415  # pydantic

    prices = options["usd_per_million_tokens"]
    definition = find_definition(trace_set, options["definition"])
    config = BenchmarkConfig.default(**options["settings"])
    target = Benchmark(trace_set, config, device=options["device"]).target
    known = [
        each.workload
        for each in trace_set.workloads.get(definition.name, [])
        if each.workload.is_of_class(target.workload_class)
    ]
    return Search(
        trace_set=trace_set,
        definition=definition,
        language=options["language"],
        split=split_workloads(definition, known, random.SystemRandom()),
        model=model,
        config=config,
        device=options["device"],
        limits=GenerationLimits(
            rounds=options["rounds"],
            width=options["width"],
            most_tokens=options["most_tokens"],
            most_device_s=options["most_device_seconds"],
        ),
        feedback=_feedback,
        prices=TokenPrices(*prices) if prices else None,
        note=transcript.note,
    )


def _feedback(traces: Sequence[Trace], solution: Solution) -> str:
    """Write what `check --json` says of the jobs, within a budget."""
    import msgspec  # noqa: PLC0415  # `--help` does without

    from flashinfer_bench.agents.answers import (  # noqa: PLC0415
        answer_of,
        compact_text,
        fitted,
    )
    from flashinfer_bench.report.jobs import for_document, job_result  # noqa: PLC0415

    jobs = for_document([job_result(each, solution) for each in traces])
    plain = msgspec.to_builtins({"jobs": jobs}, str_keys=True)
    found = fitted(screen.json_ready(plain), _FEEDBACK_TOKENS)
    return compact_text(
        {key: value for key, value in answer_of(found, "").items() if key == "jobs"}
    )


def _line_text(line: CandidateLine) -> str:
    speedup = "" if line.speedup is None else f", {line.speedup:.2f}x"
    return (
        f"round {line.round}: {line.verdict}, {line.visible_passed} shown workloads passed{speedup}"
    )


def _page(report: GenerationReport) -> Page:
    """Show what was tried, and what it took."""
    columns: list[RowColumn[CandidateLine]] = [
        RowColumn("round", lambda each: str(each.round), is_number=True),
        RowColumn("verdict", lambda each: each.verdict.replace("_", " ")),
        RowColumn("shown", lambda each: f"{each.visible_passed}/{report.visible}", is_number=True),
        RowColumn(
            "held out", lambda each: f"{each.held_out_passed}/{report.held_out}", is_number=True
        ),
        RowColumn("speedup", lambda each: speedup_text(each.speedup), is_number=True),
        RowColumn("solution", lambda each: each.solution or NOTHING),
    ]
    best = f"best: {report.best}" if report.best else "no kernel was accepted"
    cost = "" if report.cost_usd is None else f", {usd_text(report.cost_usd)}"
    return (
        heading(f"{report.definition} in {report.language}, by {report.model}"),
        rows_table(columns, report.candidates),
        paragraph(
            best,
            f"{report.prompt_tokens} tokens sent, {report.completion_tokens} received{cost}, "
            f"{report.device_s:.1f} s of jobs",
            f"ended by {report.ended_by}; transcript: {Path(report.transcript)}",
        ),
    )
