"""What every command has: examples in its help, and options that take several values."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import wings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ANY_LENGTH = 1000
_NUMBER = re.compile(r"is not a valid (integer|float)( range)?")
"""Click's words for an option that is no number."""

NEAR = 0.65
"""How alike a suggestion is at least: `rnu` for `run` is 0.67, `decompose` for `compare` 0.62."""
_SAME_SENSE = {
    "data": "local",
    "dataset": "local",
    "gpu": "device",
    "repeats": "iterations",
    "samples": "iterations",
    "tolerance": "atol",
    "verbose": "log-level",
}
"""What other programs call an option of ours."""


class ManyOption(click.Option):
    """An option that takes several values, after one another or each with the option again."""

    def __init__(self, param_decls: Sequence[str], **attributes: Any) -> None:
        super().__init__(param_decls, **{**attributes, "multiple": True})


class Command(click.Command):
    """A command with examples, whose `ManyOption`s take every value up to the next option."""

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str],
        document: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.document = document or {}
        """A wing's: the types of what its `--json` holds by key, as `cli.document_schemas` writes them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read options in the singular too, several values of one, and a dataset's folder without `--local`."""
        many = {name for each in self.params if isinstance(each, ManyOption) for name in each.opts}
        ctx.allow_extra_args = True
        try:
            left = super().parse_args(ctx, repeated(_in_plural(args, self._singulars(many)), many))
        except click.NoSuchOption as error:
            known = [name for each in self.params for name in each.opts]
            near = _nearest_option(error.option_name, known)
            hint = f" Did you mean {near!r}?" if near else ""
            said = f"No such option {error.option_name!r}.{hint}"
            raise click.NoSuchOption(error.option_name, said, ctx=ctx) from error
        except click.BadParameter as error:
            if not _NUMBER.search(error.message):
                raise
            said = _NUMBER.sub(r"is no \1", error.message).replace("no float", "no number")
            raise click.BadParameter(said, error.ctx, error.param) from error
        if left and not ctx.resilient_parsing:
            self._take_datasets(ctx, left)
        return []

    def _singulars(self, many: set[str]) -> dict[str, str]:
        """Give the singular of each option that takes several values, where it is free."""
        taken = {name for each in self.params for name in each.opts}
        singulars = {name.removesuffix("s"): name for name in many if name.startswith("--")}
        return {name: plural for name, plural in singulars.items() if name not in taken}

    def _take_datasets(self, ctx: click.Context, left: list[str]) -> None:
        """Take what is left over as datasets; anything but folders is a mistake."""
        option = next((each for each in self.params if "--local" in each.opts), None)
        most = 0 if option is None else len(left) if option.multiple else 1
        strange = [each for each in left if not Path(each).is_dir()] or left[most:]
        if option is None or strange:
            plural = "s" * (len(strange or left) > 1)
            remedy = "; a dataset is a folder" if option else ""
            if option and not any(Path(each).exists() for each in strange or left):
                remedy += ", and there is no such folder"
            ctx.fail(f"Got unexpected extra argument{plural} ({' '.join(strange or left)}){remedy}")
        name = option.name or ""
        ctx.params[name] = (*ctx.params[name], *left) if option.multiple else left[0]
        ctx.args = []

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples."""
        write_lines(formatter, "Examples", self.examples)


class CommandGroup(click.Group):
    """Commands under one name, with examples; wings may bring more of them."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    @property
    def entry_group(self) -> str:
        """The group of entry points that wings register commands in."""
        return f"{wings.GROUP}.{self.name}"

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands: those of this group, then what wings bring."""
        own = super().list_commands(ctx)
        return [*own, *sorted(wings.brought(self.entry_group).keys() - set(own))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command; one of a wing is loaded by this."""
        return super().get_command(ctx, cmd_name) or wings.find(cmd_name, self.entry_group)

    def summaries(self, ctx: click.Context) -> dict[str, str]:
        """Give the whole first sentence of each command; of wings nothing is loaded for it."""
        own = {
            name: super(CommandGroup, self).get_command(ctx, name)
            for name in super().list_commands(ctx)
        }
        found = {name: each.get_short_help_str(_ANY_LENGTH) for name, each in own.items() if each}
        brought = sorted(wings.brought(self.entry_group).items())
        return found | {name: each.summary for name, each in brought if name not in found}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries(ctx).items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples."""
        write_lines(formatter, "Examples", self.examples)


def write_lines(formatter: click.HelpFormatter, title: str, lines: Sequence[str]) -> None:
    """Write a section of lines that are not to be wrapped."""
    with formatter.section(title):
        for line in lines:
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _in_plural(arguments: Sequence[str], singulars: Mapping[str, str]) -> list[str]:
    """Write options in the plural; what follows `--` is not ours."""
    written: list[str] = []
    for index, argument in enumerate(arguments):
        if argument == "--":
            return [*written, *arguments[index:]]
        name, equals, value = argument.partition("=")
        written.append(f"{singulars.get(name, name)}{equals}{value}")
    return written


def _nearest_option(name: str, known: Sequence[str]) -> str | None:
    """Find the option somebody meant: one that begins so, of that sense, or with nearly that name.

    >>> _nearest_option("--def", ["--device", "--definition", "--local"])
    '--definition'
    >>> _nearest_option("--dataset", ["--fail-fast", "--local"])
    '--local'
    """
    words = {each.lstrip("-"): each for each in known}
    word = name.lstrip("-")
    begun = sorted((each for each in words if word and each.startswith(word)), key=len)
    words |= {each: words[ours] for each, ours in _SAME_SENSE.items() if ours in words}
    near = begun or get_close_matches(word, words, n=1, cutoff=NEAR)
    return words[near[0]] if near else None


def is_dataset(argument: str) -> bool:
    """Whether an argument is the folder of a dataset, and no name."""
    return Path(argument, "definitions").is_dir()


def repeated(arguments: Sequence[str], many: set[str]) -> list[str]:
    """Write options with several values as several options with one.

    >>> repeated(["--names", "a", "b", "--fast"], {"--names"})
    ['--names', 'a', '--names', 'b', '--fast']
    """
    expanded: list[str] = []
    taking: str | None = None
    is_first = False
    for argument in arguments:
        if argument in many:
            taking, is_first = argument, True
        elif argument.startswith("-"):
            taking = None
        elif taking is not None and not is_first and not is_dataset(argument):
            expanded.append(taking)
        else:
            is_first = False
        expanded.append(argument)
    return expanded
