"""A site on disk: written beside where it belongs, then put there at once."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from flashinfer_bench.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = ".flashinfer-bench-site.json"
"""Lists what a site is made of; a folder without it is none of ours."""
_DRAFT = ".flashinfer-bench-draft-"
"""What is being written; where a run was killed it stays, and the next one removes it."""
_MOST_NAMED = 3


def write_site(folder: Path, pages: Iterable[tuple[str, str]]) -> int:
    """Write pages, by path in the site, and put them where an earlier site or nothing was.

    Gives how many files were written. Any other folder is refused, and nothing is changed until all
    pages are there. The folder itself stays: it may be mounted, served, or the one the caller is in.
    """
    target = folder.resolve()
    require_replaceable(target)
    is_new = not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=target))
    except OSError as error:
        raise _failed(target, error) from error
    try:
        count = _fill(draft, pages)
        _swap(draft, target)
    except BaseException as error:
        if is_new:
            shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise _failed(target, error) from error
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return count


def require_replaceable(folder: Path) -> None:
    """Refuse what is neither missing, nor empty, nor a site without anything added to it."""
    target = folder.resolve()
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{folder} is a file; name a folder to write the site into")
    found = {
        path.relative_to(target)
        for path in target.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    names = {path.as_posix() for path in found if not path.parts[0].startswith(_DRAFT)}
    foreign = sorted(names - _listed(target / MARK) - {MARK})
    if not foreign:
        return
    named = ", ".join(foreign[:_MOST_NAMED]) + (", …" if len(foreign) > _MOST_NAMED else "")
    raise UsageError(
        f"{folder} holds what is not part of a site written here ({named}): it would be lost; "
        "name another folder"
    )


def _listed(mark: Path) -> set[str]:
    try:
        files = json.loads(mark.read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {each for each in files if isinstance(each, str)} if isinstance(files, list) else set()


def _fill(draft: Path, pages: Iterable[tuple[str, str]]) -> int:
    files: list[str] = []
    folders: set[Path] = set()
    for name, text in pages:
        path = draft / PurePosixPath(name)
        if path.parent not in folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            folders.add(path.parent)
        with open(path, "xb") as file:  # noqa: PTH123  # thousands of files are written this way
            file.write(text.encode("utf-8", "replace"))
        files.append(name)
    content = {"made_by": "flashinfer-bench report html", "schema_version": 1, "files": files}
    (draft / MARK).write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")
    return len(files)


def _swap(draft: Path, target: Path) -> None:
    """Exchange what lies in the folder for the draft; where that fails, what was there comes back."""
    aside = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=target))
    moved: list[tuple[Path, Path]] = []
    try:
        for folder, place in ((target, aside), (draft, target)):
            for path in sorted(folder.iterdir()):
                if path not in {draft, aside}:
                    moved.append((path, place / path.name))
                    path.rename(place / path.name)
    except BaseException:
        for was, now in reversed(moved):
            if now.exists():
                now.rename(was)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _failed(target: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot write the site {target}: {error.strerror or error}; what was there is unchanged. "
        "Free space, or name another folder"
    )
