"""`flashinfer-bench explain`: where each of two solutions wins along the axes, and how they differ."""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.commands import Command
from flashinfer_bench.cli.datasets import load_dataset
from flashinfer_bench.cli.measure.examined import home_of, report_waiting, workload_of
from flashinfer_bench.cli.options import dataset_options, json_option, log_level_option
from flashinfer_bench.cli.report.sides import find_sides
from flashinfer_bench.errors import BenchError, UnknownNameError, UsageError
from flashinfer_bench.report.compare.comparing import compare
from flashinfer_bench.report.compare.result import Kind
from flashinfer_bench.report.explaining import (
    BuiltKernel,
    BuiltSide,
    Explanation,
    MissingEvidence,
    explained_groups,
    source_changes,
)
from flashinfer_bench.report.explanation_page import explanation_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flashinfer_bench.cli.report.sides import Sides
    from flashinfer_bench.data import Solution, TraceSet
    from flashinfer_bench.report.explaining import ExplainedGroup, SourceChange

_TOOLS = {"cuda": " --with ptxas", "triton": "", "tilelang": ""}
"""Languages whose kernels have registers, and what `profile` is told: the compiler of CUDA needs no GPU."""


@click.command(
    "explain",
    cls=Command,
    examples=[
        "flashinfer-bench explain rmsnorm_h4096_pytorch rmsnorm_h4096_cpp --local my_dataset",
        "flashinfer-bench explain gemm_cuda gemm_triton --profile --local my_dataset",
        "flashinfer-bench explain run:monday run:friday --local my_dataset --definition rmsnorm_h4096",
        "flashinfer-bench explain old_dataset new_dataset --json",
    ],
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@dataset_options
@click.option("--definition", metavar="NAME", help="Look at this one only.  [default: all]")
@click.option(
    "--profile",
    "profiles",
    is_flag=True,
    help="Compile GPU kernels whose instructions no profile knows; needs no GPU, and keeps the profile.",
)
@json_option
@log_level_option
def explain(  # noqa: PLR0917  # options arrive by name
    a: str,
    b: str,
    local: tuple[str, ...],
    definition: str | None,
    profiles: bool,
    as_json: bool,
) -> None:
    """Say where each of two solutions wins along the axes, and how they differ.

    A and B are two of a kind, as for `compare`: solutions, runs or hardware of a dataset, or two datasets. All is
    read from what is recorded, nothing is run: what is missing is named, with the command that would fill it. Only
    --profile compiles.

    A side wins a workload when the whole 95% interval of `compare` says so. A cross-over lies between two
    workloads that differ in one axis and are won by different sides. Registers, spills, shared memory and counts of
    instructions come from the newest profile that `profile` kept of each solution's present code.
    """
    with contextlib.ExitStack() as stack:
        found = _explained(find_sides(a, b, local, stack), local, definition, profiles=profiles)
    if as_json:
        screen.show_json({"schema_version": 1, "explanation": found})
    else:
        screen.show(explanation_page(found))


def _explained(
    sides: Sides, local: tuple[str, ...], definition: str | None, *, profiles: bool
) -> Explanation:
    known = {row.definition for side in (sides.old, sides.new) for row in side.rows}
    one, two = sides.old, sides.new
    if definition is not None:
        if known and definition not in known:
            raise UnknownNameError("definition", definition, known)
        one, two = (
            replace(side, rows=[row for row in side.rows if row.definition == definition])
            for side in (one, two)
        )
    if profiles and sides.kind is not Kind.SOLUTIONS:
        raise UsageError("--profile compiles two solutions; A and B are none")
    comparison = compare(one, two, sides.kind)
    groups = explained_groups(comparison)
    sources: tuple[SourceChange, ...] = ()
    built: list[BuiltSide | None] = [None, None]
    missing: list[MissingEvidence] = []
    if sides.kind is Kind.SOLUTIONS:
        trace_set = load_dataset(local)
        solutions = [trace_set.get_solution(name) for name in (one.name, two.name)]
        files = [{f.path: f.content for f in each.sources} for each in solutions if each]
        if len(files) == len(solutions):
            sources = source_changes(*files)
        built = [None if each is None else _built(trace_set, each) for each in solutions]
        refusals = ["", ""]
        for place, (each, side) in enumerate(zip(solutions, built, strict=True)):
            if profiles and each is not None and _lacks_instructions(each, side):
                refusals[place] = _profiled(trace_set, each)
                built[place] = _built(trace_set, each)
        missing = list(_missing(groups, (one.name, two.name), solutions, built, refusals, local))
    return Explanation(
        kind=sides.kind.value,
        a=one.name,
        b=two.name,
        groups=groups,
        sources=sources,
        a_built=built[0],
        b_built=built[1],
        missing=tuple(missing),
        remarks=comparison.remarks,
    )


def _built(trace_set: TraceSet, solution: Solution) -> BuiltSide | None:
    """Read the newest profile of this code that knows what the compiler reserved."""
    from flashinfer_bench.bench.examining.kept_profiles import (  # noqa: PLC0415  # pydantic
        newest_profiles,
    )

    definition = trace_set.definitions.get(solution.definition)
    if definition is None:
        return None
    kept = newest_profiles(trace_set.roots, definition)
    of_this = [each for key, each in kept.items() if key[0] == solution.hash()]
    for profile in sorted(of_this, key=lambda each: each.taken_at, reverse=True):
        told = [each for each in profile.kernels if each.registers is not None]
        if told:
            kernels = tuple(
                BuiltKernel(
                    each.name,
                    each.registers,
                    each.spill_bytes,
                    each.stack_bytes,
                    each.shared_memory_bytes,
                    each.instructions,
                )
                for each in told
            )
            return BuiltSide(solution.name, profile.hardware, told[0].tool, kernels)
    return None


def _lacks_instructions(solution: Solution, side: BuiltSide | None) -> bool:
    return solution.spec.language.value in _TOOLS and (
        side is None or all(each.instructions is None for each in side.kernels)
    )


def _profiled(trace_set: TraceSet, solution: Solution) -> str:
    """Have a solution compiled and its profile kept; give what came in the way."""
    from flashinfer_bench.bench.examining import profiling  # noqa: PLC0415  # pydantic
    from flashinfer_bench.bench.examining.kept_profiles import (  # noqa: PLC0415  # pydantic
        keep_profile,
    )

    definition = trace_set.definitions[solution.definition]
    home, author = home_of(trace_set), solution.author
    log.inform(f"compiling {solution.name}")
    try:
        found = profiling.profile(
            trace_set,
            definition,
            solution,
            workload_of(trace_set, definition, None),
            tool="ptxas",
            keep_in=home.tool_reports(author, definition),
            observe=report_waiting,
        )
    except BenchError as error:
        return str(error)
    keep_profile(home.kernel_profiles_file(author, definition), found)
    has_counted = any(each.instructions for each in found.kernels)
    return "" if has_counted else "; ".join(found.notes)


def _missing(  # noqa: PLR0917  # what is known of both sides
    groups: Sequence[ExplainedGroup],
    names: tuple[str, str],
    solutions: Sequence[Solution | None],
    built: Sequence[BuiltSide | None],
    refusals: Sequence[str],
    local: tuple[str, ...],
) -> Iterator[MissingEvidence]:
    places = "".join(f" --local {shlex.quote(each)}" for each in local)
    definition = next((each.definition for each in solutions if each), "")
    for name, solution, letter in zip(names, solutions, "ab", strict=True):
        if solution is None:
            what = f"the sources of {name}: no such solution in the dataset"
            yield MissingEvidence(what, f"flashinfer-bench list solutions{places}")
        lacks = [
            each
            for group in groups
            for each in group.one_sided
            if (each.a_status if letter == "a" else each.b_status) is None
        ]
        if lacks or not any(group.jobs or group.one_sided for group in groups):
            what = f"times of {name}" + (f" on {len(lacks)} workloads" if lacks else "")
            command = f"flashinfer-bench run{places} --definitions {definition} --solutions {name} --resume"
            yield MissingEvidence(what, command)
    if any(group.wins["undecided"] for group in groups):
        yield MissingEvidence(
            "verdicts of undecided workloads", f"flashinfer-bench ab {names[0]} {names[1]}{places}"
        )
    for name, solution, side, refusal in zip(names, solutions, built, refusals, strict=True):
        if solution is not None and _lacks_instructions(solution, side):
            reserved = "" if side else "registers, spills, shared memory and "
            what = f"{reserved}instructions of {name}" + (f" ({refusal})" if refusal else "")
            command = (
                f"flashinfer-bench profile {name}{places}{_TOOLS[solution.spec.language.value]}"
            )
            yield MissingEvidence(what, command)
