"""Problems as files: in which order they stand, which one a person means, and the sources of one."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.data.opening import SOURCE_BYTES, read_bytes, require_regular
from flashinfer_bench.errors import DatasetError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


LEVELS = (1, 2, 3)
"""Those that are taken where none is named."""
ALL_LEVELS = (*LEVELS, 4)
DEFAULT_LIBRARY = Path("data/kernelbench")
_EXPECTED = Path(__file__).with_name("problems.txt")
_NUMBERED = re.compile(r"(?P<level>\d+)/(?P<number>\d+)")
_PARTS = re.compile(r"(\d+)")
_DEFINES_MODEL = re.compile(r"^class\s+Model\b", re.MULTILINE)


def level_folder(library: Path, level: int) -> Path:
    """Name the folder of a level."""
    return library / f"level{level}"


def files_of(library: Path, level: int) -> list[Path]:
    """List the problems of a level in natural order: 2 before 10, those without a number last."""
    folder = level_folder(library, level)
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; {how_to_get(library)}")
    return sorted(filter(is_problem, folder.glob("*.py")), key=lambda path: natural_key(path.name))


def is_problem(path: Path) -> bool:
    """Tell a problem from a helper module beside it; what cannot be read is a problem, to be reported."""
    try:
        return _DEFINES_MODEL.search(read_bytes(path, SOURCE_BYTES).decode()) is not None
    except (DatasetError, UnicodeDecodeError):
        return True


def find(text: str, library: Path) -> Path:
    """Find a problem by `LEVEL/NUMBER`, by its path, or by its name with or without number and suffix."""
    numbered = _NUMBERED.fullmatch(text)
    if numbered is not None:
        return _by_number(library, int(numbered["level"]), int(numbered["number"]))
    path = Path(text)
    if path.is_file():
        return path
    if path.suffix == ".py" and len(path.parts) > 1:
        raise UsageError(f"no problem file {text}")
    return _by_name(path.name.removesuffix(".py"), library)


def level_of(path: Path) -> int | None:
    """Read the level off the folder that a problem lies in."""
    named = re.fullmatch(r"level(\d+)", path.resolve().parent.name)
    return int(named[1]) if named else None


def number_of(path: Path) -> int | None:
    """Read the number off a problem's name."""
    named = re.match(r"(\d+)_", path.name)
    return int(named[1]) if named else None


def label_of(path: Path) -> str:
    """Name a problem as `level3/12_MiniGPT`; without a level by its name alone."""
    level = level_of(path)
    return path.stem if level is None else f"level{level}/{path.stem}"


def how_to_get(library: Path) -> str:
    """Say how a library comes to be where it is looked for."""
    return f"`flashinfer-bench kernelbench fetch {library}` brings it, --dataset names another"


def expected() -> tuple[str, ...]:
    """List what KernelBench documents, as `level1/19_ReLU.py`; a level of `*` is any."""
    lines = _EXPECTED.read_text(encoding="utf-8").split("\n")
    return tuple(line for line in lines if line and not line.startswith("#"))


def not_among(names: Iterable[str]) -> tuple[str, ...]:
    """List what is documented and not among these `level1/19_ReLU.py`."""
    present = set(names)
    anywhere = {name.partition("/")[2] for name in present}
    return tuple(
        name
        for name in expected()
        if name not in present and not (name.startswith("*/") and name[2:] in anywhere)
    )


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Order names as people count.

    >>> sorted(["10_a.py", "gpt.py", "2_b.py"], key=natural_key)
    ['2_b.py', '10_a.py', 'gpt.py']
    """
    parts = [part for part in _PARTS.split(name.lower()) if part]
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def _by_number(library: Path, level: int, number: int) -> Path:
    found = [path for path in files_of(library, level) if number_of(path) == number]
    if not found:
        folder = level_folder(library, level)
        raise UsageError(f"{folder} has no problem number {number}; {how_to_get(library)}")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UsageError(f"number {number} of level {level} is taken twice ({names}): give a name")
    return found[0]


def _by_name(name: str, library: Path) -> Path:
    known: dict[str, list[Path]] = {}
    for level in ALL_LEVELS:
        if level_folder(library, level).is_dir():
            for path in files_of(library, level):
                for called in {path.stem, re.sub(r"^\d+_", "", path.stem)}:
                    known.setdefault(called, []).append(path)
    if not known:
        raise UsageError(f"{library} holds no problems; {how_to_get(library)}")
    found = known.get(name, [])
    if len(found) > 1:
        places = ", ".join(map(label_of, found))
        raise UsageError(f"several problems are called {name!r} ({places}): give LEVEL/NUMBER")
    if not found:
        raise UnknownNameError("problem", name, known)
    return found[0]


_MOST_FILES = 200


def local_sources(path: Path) -> dict[str, str]:
    """Read a file and the modules beside it that it imports, by their place relative to it."""
    folder = path.parent
    found = {path.name: read_source(path)}
    waiting = [path.name]
    while waiting:
        for name in _imported(found[waiting.pop()]):
            for file in _files_of_module(folder, name):
                relative = str(file.relative_to(folder))
                if relative not in found and len(found) < _MOST_FILES:
                    found[relative] = read_source(file)
                    waiting.append(relative)
    return found


def read_source(path: Path) -> str:
    """Read Python source."""
    try:
        require_regular(path)
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"no file {path}") from None
    except (DatasetError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as Python source: {error}") from None


def _imported(text: str) -> set[str]:
    """Name the modules that a file imports, as far as it parses."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def _files_of_module(folder: Path, name: str) -> Iterable[Path]:
    file = folder / f"{name}.py"
    if file.is_file():
        return [file]
    package = folder / name
    return sorted(package.rglob("*.py")) if (package / "__init__.py").is_file() else []
