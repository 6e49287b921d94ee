"""What every command has: examples in its help, and options that take several values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashinfer_bench.cli import wings

if TYPE_CHECKING:
    from collections.abc import Sequence

_ANY_LENGTH = 1000


class ManyOption(click.Option):
    """An option that takes several values, after one another or each with the option again."""

    def __init__(self, param_decls: Sequence[str], **attributes: Any) -> None:
        super().__init__(param_decls, **{**attributes, "multiple": True})


class Command(click.Command):
    """A command with examples, whose `ManyOption`s take every value up to the next option."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat an option before each of its values, which is how click wants them."""
        many = {name for each in self.params if isinstance(each, ManyOption) for name in each.opts}
        try:
            return super().parse_args(ctx, repeated(args, many))
        except click.UsageError as error:
            remedy = self._remedy(error.message, args)
            if not remedy:
                raise
            raise click.UsageError(error.message + remedy, ctx) from error

    def _remedy(self, message: str, args: Sequence[str]) -> str:
        """Tell who names a dataset's folder alone that an option does that."""
        takes_dataset = any("--local" in each.opts for each in self.params)
        folder = next((each for each in args if f"({each})" in message), None)
        if not takes_dataset or folder is None or not Path(folder).is_dir():
            return ""
        return f"; a dataset is named with --local {folder}"

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
        elif taking is not None and not is_first:
            expanded.append(taking)
        else:
            is_first = False
        expanded.append(argument)
    return expanded
