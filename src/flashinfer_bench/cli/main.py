"""The `flashinfer-bench` command: its commands by name, those of wings too, each loaded when it is chosen."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, NamedTuple, cast

import click

from flashinfer_bench.cli import wings
from flashinfer_bench.cli.boundary import faults_in_one_line, want_json
from flashinfer_bench.cli.commands import NEAR, CommandGroup, write_lines


class CommandEntry(NamedTuple):
    """Where a command lives, and what the overview says about it."""

    module: str
    summary: str
    attribute: str | None = None
    """What the module calls it, where that is not the command's name."""


COMMANDS = {
    "run": CommandEntry("measure.run", "Benchmark the solutions of a dataset and record traces."),
    "report": CommandEntry("report.report", "Look at recorded traces."),
    "compare": CommandEntry(
        "report.compare",
        "Say what became faster, slower, new, missing, wrong or right from OLD to NEW.",
    ),
    "explain": CommandEntry(
        "report.explain",
        "Say where each of two solutions wins along the axes, and how they differ.",
    ),
    "list": CommandEntry(
        "dataset.listing",
        "List the definitions, solutions, workloads or traces of a dataset.",
        "list_",
    ),
    "show": CommandEntry(
        "dataset.listing", "Show a definition, solution, workload or trace of a dataset."
    ),
    "export": CommandEntry("dataset.export", "Write traces or a whole dataset for other programs."),
    "check": CommandEntry(
        "measure.check", "Build, judge and time one kernel file; nothing is recorded."
    ),
    "ab": CommandEntry(
        "measure.ab", "Time two solutions against each other in alternating blocks."
    ),
    "profile": CommandEntry(
        "measure.profile", "Say where one call of a solution spends its time, kernel by kernel."
    ),
    "sanitize": CommandEntry(
        "measure.sanitize", "Look for what a solution does wrong, right result or not."
    ),
    "doctor": CommandEntry(
        "measure.doctor", "Say what can be built, run and timed here, and what is missing."
    ),
    "replay": CommandEntry("measure.replay", "Run one recorded job again with its seed."),
    "trace": CommandEntry(
        "dataset.trace",
        "Run a program, and record its kernels' calls as workloads and as a model's profile.",
    ),
    "import": CommandEntry("dataset.importing", "Make a dataset from another format.", "import_"),
    "hub": CommandEntry(
        "dataset.hub", "Download datasets from the Hugging Face hub, and list what is here."
    ),
    "init": CommandEntry(
        "dataset.init", "Make the folders of a dataset, with a README of the next steps."
    ),
    "new": CommandEntry("dataset.new", "Start a definition or a solution, without writing JSON."),
    "pack": CommandEntry("dataset.pack", "Write a folder with a `solution.toml` as one JSON file."),
    "unpack": CommandEntry(
        "dataset.pack",
        "Write a solution, from a JSON file or by its name in a dataset, as a folder of files.",
    ),
    "schema": CommandEntry(
        "dataset.schema",
        "Print the JSON schema of one entity or one command's document, or of all entities.",
    ),
    "validate": CommandEntry(
        "dataset.validate", "Check the files of a dataset, each by itself and all together."
    ),
    "validate-render": CommandEntry(
        "dataset.validate", "Write the JSON of an earlier validation as text."
    ),
}


ORDER = (
    *("run", "list", "show", "report", "compare", "explain", "export", "check", "ab", "profile"),
    *("sanitize", "bench-model", "doctor", "judge", "attack-test", "replay", "trace"),
    *("serve", "worker", "submit", "tasks", "cancel", "tokens"),
    *(
        "contest",
        "decompose",
        "kernelbench",
        "import",
        "hub",
        "init",
        "new",
        "pack",
        "unpack",
        "schema",
    ),
    *("validate", "validate-render", "mcp", "tools", "generate", "agents"),
)
"""Of the overview; what it does not know comes last, by name."""

_SAME_SENSE = {
    "ls": "list",
    "cat": "show",
    "info": "show",
    "describe": "show",
    "diff": "compare",
    "bench": "run",
    "benchmark": "run",
    "measure": "run",
    "test": "check",
    "verify": "check",
    "eval": "check",
    "site": "report html",
    "create": "init",
    "leaderboard": "report summary",
}
"""Words of other tools, and our command that does it."""
_GROUPS = ("report",)
"""Whose commands people look for at the top."""
EXAMPLES = (
    "flashinfer-bench run --local examples/dataset",
    "flashinfer-bench list examples/dataset",
    "flashinfer-bench report summary --local examples/dataset",
    "flashinfer-bench check kernel.py --definition rmsnorm_h4096 --local examples/dataset",
)
EXIT_CODES = (
    "0    all good",
    "1    it ran and found failures: a job did not pass, a gate is broken, `validate` found errors",
    "2    usage: an option, a name or a path is wrong",
    "3    the dataset is at fault",
    "4    the machine, or this program, is at fault",
    "130  interrupted",
)


class CommandLine(CommandGroup):
    """Knows its commands by name; `--help` loads none of them."""

    @property
    def entry_group(self) -> str:
        """The group of entry points that wings register commands in."""
        return wings.GROUP

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Name the commands, in the order of the overview."""
        known = {name: place for place, name in enumerate(ORDER)}
        return sorted(
            {*COMMANDS, *wings.brought()}, key=lambda name: (known.get(name, len(known)), name)
        )

    def summaries(self, ctx: click.Context) -> dict[str, str]:
        """Give what the overview says of each command."""
        brought = wings.brought()
        return {
            name: (COMMANDS.get(name) or brought[name]).summary for name in self.list_commands(ctx)
        }

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        entry = COMMANDS[cmd_name]
        module = importlib.import_module(f"flashinfer_bench.cli.{entry.module}")
        command: click.Command = getattr(module, entry.attribute or cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a mistyped one is an error that suggests the nearest."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not self.get_command(ctx, name):
            if name in ORDER:
                ctx.fail(f"No such command {name!r}: {wings.REMEDY}")
            if near := self._nearest(ctx, name):
                ctx.fail(f"No such command {name!r}; did you mean {near!r}?")
        return super().resolve_command(ctx, args)

    def _nearest(self, ctx: click.Context, name: str) -> str | None:
        """Find the command somebody meant: one of that sense, of a group, or with nearly that name."""
        below = {
            inner: f"{group} {inner}"
            for group in _GROUPS
            for inner in cast("click.Group", self.get_command(ctx, group)).list_commands(ctx)
            if inner not in COMMANDS
        }
        meant = _SAME_SENSE.get(name) or below.get(name)
        near = difflib.get_close_matches(name, [*self.list_commands(ctx), *below], 1, NEAR)
        return meant or (below.get(near[0], near[0]) if near else None)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and the exit codes."""
        super().format_epilog(ctx, formatter)
        write_lines(formatter, "Exit codes", EXIT_CODES)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note whether a document is wanted, and leave the rest to the commands."""
        want_json(ctx, args)
        with faults_in_one_line(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command inside the boundary where faults become one line and an exit code."""
        with faults_in_one_line(ctx):
            return super().invoke(ctx)


def _show_version(ctx: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted or ctx.resilient_parsing:
        return
    from flashinfer_bench import __version__  # noqa: PLC0415  # reading it is slow; rarely asked

    click.echo(f"flashinfer-bench {__version__}")
    ctx.exit()


@click.group(
    cls=CommandLine,
    examples=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Describe, check, time and compare GPU and CPU kernels.

    Results go to stdout, progress and logs to stderr.
    """
