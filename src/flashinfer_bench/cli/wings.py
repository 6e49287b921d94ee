"""Commands that wings bring, ours and other people's: found by entry points, loaded when they are chosen.

A wing is a package above this one. Its distribution registers a command in the group `flashinfer_bench.commands`,
or in `flashinfer_bench.commands.NAME` what is to stand below the command NAME, such as `import`.

Of our own wings a source tree is asked first: a checkout, and what is installed from it with `pip install -e`, has the
commands that its `pyproject.toml` names, however old the installed metadata are.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.metadata import EntryPoint

GROUP = "flashinfer_bench.commands"
_OURS = "flashinfer-bench"

REMEDY = (
    "the installed metadata of flashinfer-bench are older than its code and do not name it: "
    "install it again"
)


class Brought(NamedTuple):
    """A command that a wing registered."""

    entry: EntryPoint
    distribution: str

    @property
    def is_ours(self) -> bool:
        """Whether it came with this package."""
        return self.distribution == _OURS

    @property
    def summary(self) -> str:
        """What the overview says: the first line of its module's docstring, which is read and not run."""
        said = _first_line(self.entry.value.partition(":")[0].strip())
        if self.is_ours:
            return said
        return f"{said or self._distribution_summary()} ({self.distribution})".strip()

    def load(self) -> click.Command:
        """Import the command; `UsageError` names the distribution whose command cannot be."""
        try:
            found = self.entry.load()
        except Exception as error:
            if self.is_ours:
                raise
            raise self._unusable(f"{type(error).__name__}: {error}") from error
        if not isinstance(found, click.Command):
            raise self._unusable(f"{self.entry.value} is no click command")
        return found

    def _unusable(self, why: str) -> UsageError:
        return UsageError(
            f"the command {self.entry.name!r} is brought by {self.distribution} and cannot be loaded: {why}; "
            f"update it, or `pip uninstall {self.distribution}`"
        )

    def _distribution_summary(self) -> str:
        return "" if self.entry.dist is None else self.entry.dist.metadata["Summary"] or ""


def brought(group: str = GROUP) -> dict[str, Brought]:
    """Find all commands of a group by name; ours come before others of the same name."""
    found = {each.entry.name: each for each in _ours(group)}
    for each in _others(group):
        found.setdefault(each.entry.name, each)
    return found


def find(name: str, group: str = GROUP) -> click.Command | None:
    """Load the command of this name; None where nobody brings it, `UsageError` where two others do."""
    for each in _ours(group):
        if each.entry.name == name:
            return each.load()
    found = {each.distribution: each for each in _others(group) if each.entry.name == name}
    if len(found) > 1:
        raise UsageError(f"{' and '.join(found)} both bring a command {name!r}: uninstall one")
    return next(iter(found.values())).load() if found else None


def _ours(group: str) -> Iterator[Brought]:
    from importlib.metadata import EntryPoint  # noqa: PLC0415  # slow; other commands do without

    source = _entry_points_of_source_tree(Path(__file__).parents[3])
    if source is None:
        yield from (each for each in _installed(group) if each.is_ours)
    else:
        for name, value in source.get(group, {}).items():
            yield Brought(EntryPoint(name, value, group), _OURS)


def _others(group: str) -> Iterator[Brought]:
    yield from (each for each in _installed(group) if not each.is_ours)


def _installed(group: str) -> list[Brought]:
    from importlib.metadata import entry_points  # noqa: PLC0415  # slow; other commands do without

    found = [Brought(each, _name_of(each)) for each in entry_points(group=group)]
    return sorted(found, key=lambda each: (each.distribution, each.entry.name))


def _name_of(entry: EntryPoint) -> str:
    name = None if entry.dist is None else entry.dist.metadata["Name"]
    return "a distribution without a name" if name is None else name.lower().replace("_", "-")


@functools.cache
def _entry_points_of_source_tree(folder: Path) -> Mapping[str, Mapping[str, str]] | None:
    """Read what a source tree registers; None where the folder is none of this package."""
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return None
    import tomllib  # noqa: PLC0415  # in source trees only

    try:
        project = tomllib.loads(text).get("project", {})
    except tomllib.TOMLDecodeError:
        return None
    found: Mapping[str, Mapping[str, str]] = project.get("entry-points", {})
    return found if project.get("name") == _OURS else None


def _first_line(module: str) -> str:
    """Read the first line of a module's docstring; empty where there is none to be had."""
    import ast  # noqa: PLC0415  # for overviews only
    import tokenize  # noqa: PLC0415

    before = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING}
    for file in _files_of(module):
        with contextlib.suppress(OSError, SyntaxError, ValueError, tokenize.TokenError):
            with tokenize.open(file) as source:
                tokens = tokenize.generate_tokens(source.readline)
                first = next(each for each in tokens if each.type not in before)
            if first.type == tokenize.STRING:
                return str(ast.literal_eval(first.string)).strip().partition("\n")[0]
    return ""


def _files_of(module: str) -> Iterator[Path]:
    """Find a module's file, importing nothing."""
    from importlib.util import find_spec  # noqa: PLC0415  # for overviews only

    top, *parts = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return
    if not parts and spec.origin:
        yield Path(spec.origin)
    for folder in spec.submodule_search_locations or () if parts else ():
        place = Path(folder, *parts)
        yield from (
            each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()
        )
