"""What every command has: examples in its help, and options that take several values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
    """Commands under one name, with examples."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Name each command with its whole first sentence."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [
            (name, each.get_short_help_str(_ANY_LENGTH)) for name, each in found.items() if each
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

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
