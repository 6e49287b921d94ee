"""Commands that wings bring, ours and other people's: found by entry points, loaded when they are chosen.

A wing is a package above this one. Its distribution registers a command in the group `flashinfer_bench.commands`,
or in `flashinfer_bench.commands.NAME` what is to stand below the command NAME, such as `import`.

Of our own wings a source tree is asked first: a checkout, and what is installed from it with `pip install -e`, has the
commands that its `pyproject.toml` names, however old the installed metadata are.

Metadata are read here and not by `importlib.metadata`, whose import alone takes a third of the time of `--help`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    EntryPoints = Mapping[str, Mapping[str, str]]
    """Values by group and name."""

GROUP = "flashinfer_bench.commands"
REMEDY = (
    "the installed metadata of flashinfer-bench are older than its code and do not name it: "
    "install it again"
)
_OURS = "flashinfer-bench"
_DOCSTRING = r"""(?:\s|#.*\n)*[rRuU]?("{3}|'{3}|"|')\s*(.+?)\s*(?:\1|\n|\Z)"""
"""At the start of a file: what quotes it, then its first line."""


class Brought(NamedTuple):
    """A command that a wing registered."""

    name: str
    value: str
    """Where it is: `module:attribute`."""
    distribution: str
    metadata: Path | None = None
    """Folder of the distribution's metadata."""

    @property
    def is_ours(self) -> bool:
        """Whether it came with this package."""
        return self.distribution == _OURS

    @property
    def summary(self) -> str:
        """What the overview says: the first line of its module's docstring, which is read and not run."""
        said = _docstring_line(self.value.partition(":")[0].strip())
        if self.is_ours:
            return said
        return f"{said or _summary_in(self.metadata)} ({self.distribution})".strip()

    def load(self) -> click.Command:
        """Import the command; `UsageError` names the distribution whose command cannot be."""
        module, _, attribute = self.value.partition("[")[0].replace(" ", "").partition(":")
        try:
            found: object = importlib.import_module(module)
            for name in attribute.split("."):
                found = getattr(found, name)
        except Exception as error:
            if self.is_ours:
                raise
            raise self._unusable(f"{type(error).__name__}: {error}") from error
        if not isinstance(found, click.Command):
            raise self._unusable(f"{self.value} is no click command")
        return found

    def _unusable(self, why: str) -> UsageError:
        return UsageError(
            f"the command {self.name!r} is brought by {self.distribution} and cannot be loaded: {why}; "
            f"update it, or `pip uninstall {self.distribution}`"
        )


def brought(group: str = GROUP) -> dict[str, Brought]:
    """Find all commands of a group by name; ours come before others of the same name."""
    found = {each.name: each for each in _ours(group)}
    for each in _others(group):
        found.setdefault(each.name, each)
    return found


def find(name: str, group: str = GROUP) -> click.Command | None:
    """Load the command of this name; None where nobody brings it, `UsageError` where two others do."""
    for each in _ours(group):
        if each.name == name:
            return each.load()
    found = [each for each in _others(group) if each.name == name]
    if len(found) > 1:
        names = " and ".join(each.distribution for each in found)
        raise UsageError(f"{names} both bring a command {name!r}: uninstall one")
    return found[0].load() if found else None


def _ours(group: str) -> Iterator[Brought]:
    source = _source_tree(Path(__file__).parents[3])
    if source is None:
        yield from (each for each in _installed(group) if each.is_ours)
    else:
        yield from (Brought(*each, _OURS) for each in source.get(group, {}).items())


def _others(group: str) -> Iterator[Brought]:
    yield from (each for each in _installed(group) if not each.is_ours)


def _installed(group: str) -> list[Brought]:
    """Find what distributions on the path registered, in the order of their names."""
    return [
        Brought(*each, distribution, metadata)
        for distribution, (metadata, found) in sorted(_distributions(tuple(sys.path)).items())
        for each in sorted(found.get(group, {}).items())
    ]


@functools.cache
def _distributions(path: tuple[str, ...]) -> Mapping[str, tuple[Path, EntryPoints]]:
    """Read the entry points of every distribution, by its name; the first of a name on the path counts."""
    found: dict[str, tuple[Path, EntryPoints]] = {}
    for folder in path:
        with contextlib.suppress(OSError):
            for entry in sorted(os.listdir(folder or os.curdir)):  # noqa: PTH208  # names alone are faster
                stem, dot, kind = entry.rpartition(".")
                name = stem.partition("-")[0].replace("_", "-").lower()
                if dot and kind in {"dist-info", "egg-info"} and name not in found:
                    metadata = Path(folder, entry)
                    found[name] = metadata, _entry_points(metadata)
    return found


def _entry_points(metadata: Path) -> EntryPoints:
    """Read `entry_points.txt` (packaging.python.org/en/latest/specifications/entry-points)."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    with contextlib.suppress(OSError, UnicodeError):
        text = (metadata / "entry_points.txt").read_text(encoding="utf-8")
        group = ""
        for line in map(str.strip, text.splitlines() if GROUP in text else ()):
            name, is_entry, value = line.partition("=")
            if line.startswith("["):
                group = line.strip("[] ")
            elif is_entry and not line.startswith(("#", ";")):
                found[group][name.strip()] = value.strip()
    return found


@functools.cache
def _source_tree(folder: Path) -> EntryPoints | None:
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
    found: EntryPoints = project.get("entry-points", {})
    return found if project.get("name") == _OURS else None


def _summary_in(metadata: Path | None) -> str:
    """Read the one line that a distribution says of itself."""
    for name in ("METADATA", "PKG-INFO"):
        with contextlib.suppress(OSError, UnicodeError):
            for line in Path(metadata or "", name).read_text(encoding="utf-8").splitlines():
                if line.startswith("Summary:"):
                    return line.partition(":")[2].strip()
    return ""


def _docstring_line(module: str) -> str:
    """Read the first line of a module's docstring; empty where there is none to be had."""
    for file in _files_of(module):
        with contextlib.suppress(OSError, UnicodeError):
            found = re.match(_DOCSTRING, file.read_text(encoding="utf-8"))
            if found:
                return found[2]
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
