"""KernelBench's files brought from its repository with git, at a commit that is written down."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.data import settings
from flashinfer_bench.data.files import write_whole
from flashinfer_bench.errors import DeviceError, UsageError
from flashinfer_bench.kernelbench.library import natural_key, not_among

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REPOSITORY = "https://github.com/ScalingIntelligence/KernelBench"
BRANCH = "main"
MANIFEST = "manifest.txt"
_PROBLEM = re.compile(r"(?:(?P<root>.+)/)?(?P<name>level[123]/[^/]+\.py)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LICENSES = ("LICENSE", "LICENSE.md", "LICENSE.txt")
_GIT_TIMEOUT_S = 600
_QUIET_GIT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_HTTP_LOW_SPEED_LIMIT": "1000",
    "GIT_HTTP_LOW_SPEED_TIME": "30",
}


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was brought, and what was not to be had."""

    folder: str
    repository: str
    revision: str
    commit: str
    files: tuple[str, ...]
    changed: tuple[str, ...]
    """Files that were not there before, or that held something else."""
    missing: tuple[str, ...]
    """Documented problems that this commit does not have."""
    was_pinned: bool
    """Whether the commit was the one that the manifest of an earlier fetch names."""


def fetch(folder: Path, *, revision: str | None = None, repository: str | None = None) -> Fetched:
    """Bring the problems of levels 1 to 3; without a revision at the commit of an earlier fetch, else of `main`."""
    source = _address(repository or REPOSITORY)
    pinned = _pinned(folder, source) if revision is None else None
    wanted = revision or pinned or BRANCH
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-kernelbench-") as scratch:
        git = _Git(Path(scratch), source)
        commit = git.bring(wanted)
        contents = git.read(_problems_in(git.list(commit), source, commit), commit)
    changed = [name for name, content in contents.items() if _differs(folder / name, content)]
    for name in changed:
        write_whole(folder / name, contents[name])
    names = sorted((name for name in contents if name.startswith("level")), key=natural_key)
    fetched = Fetched(
        folder=str(folder),
        repository=source,
        revision=wanted if pinned is None else BRANCH,
        commit=commit,
        files=tuple(names),
        changed=tuple(name for name in names if name in changed),
        missing=not_among(names),
        was_pinned=pinned is not None,
    )
    write_whole(folder / MANIFEST, _manifest(fetched, contents).encode())
    return fetched


def _address(repository: str) -> str:
    """Make a path absolute: git runs in a folder of its own."""
    path = Path(repository).expanduser()
    if path.exists():
        return str(path.resolve())
    if "://" not in repository and ":" not in repository:
        raise UsageError(
            f"{repository}: no such folder; --repository takes a URL or a clone's path"
        )
    return repository


def _pinned(folder: Path, repository: str) -> str | None:
    """Read the commit that an earlier fetch from the same repository wrote down."""
    try:
        lines = (folder / MANIFEST).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return None
    noted = dict(line.removeprefix("# ").split(": ", 1) for line in lines if ": " in line)
    commit = noted.get("commit", "")
    is_same = noted.get("repository") == repository
    return commit if is_same and _COMMIT.fullmatch(commit) else None


def _problems_in(paths: Iterable[str], source: str, commit: str) -> dict[str, str]:
    """Choose what to read, by the name it gets here: the largest collection of levels, and its license."""
    paths = list(paths)
    collections: dict[str, dict[str, str]] = {}
    for path in paths:
        if found := _PROBLEM.fullmatch(path):
            collections.setdefault(found["root"] or "", {})[found["name"]] = path
    if not collections:
        raise UsageError(
            f"{source} at {commit[:12]} has no level1/*.py, level2/*.py or level3/*.py: "
            "it is not KernelBench, or this --revision keeps its problems elsewhere"
        )
    chosen = max(collections.values(), key=len)
    return chosen | {name: name for name in _LICENSES if name in paths}


def _differs(path: Path, content: bytes) -> bool:
    return not path.is_file() or path.read_bytes() != content


def _manifest(fetched: Fetched, contents: Mapping[str, bytes]) -> str:
    """Say where the files come from; `sha256sum --check` reads the lines below."""
    head = [
        "# KernelBench, brought by `flashinfer-bench kernelbench fetch`",
        f"# repository: {fetched.repository}",
        f"# revision: {fetched.revision}",
        f"# commit: {fetched.commit}",
        f"# files: {len(fetched.files)}",
        *(f"# not there: {name.removeprefix('*/')}" for name in fetched.missing),
    ]
    sums = [f"{hashlib.sha256(contents[name]).hexdigest()}  {name}" for name in fetched.files]
    return "\n".join([*head, *sums, ""])


class _Git:
    """A bare-bones clone that holds one commit and only the files that are read."""

    def __init__(self, folder: Path, source: str) -> None:
        self._folder = folder
        self._source = source

    def bring(self, revision: str) -> str:
        """Get one commit without its history, and give its full name."""
        self._run("init", "--quiet")
        self._run("remote", "add", "origin", "--", self._source)
        shallow = self._try(
            "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", "--", revision
        )
        if shallow.returncode == 0:
            return self._run("rev-parse", "FETCH_HEAD^{commit}").strip()
        self._require_reachable()
        self._run("fetch", "--quiet", "--filter=blob:none", "--tags", "origin")
        named = self._try("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if named.returncode != 0:
            raise UsageError(
                f"{self._source} has no revision {revision!r}; give a branch, a tag or a commit"
            )
        return named.stdout.decode().strip()

    def list(self, commit: str) -> list[str]:
        """List the paths of a commit."""
        listed = self._run("ls-tree", "-r", "-z", "--name-only", commit)
        return [path for path in listed.split("\0") if path]

    def read(self, paths: Mapping[str, str], commit: str) -> dict[str, bytes]:
        """Check files out, all in one request, and read them by the names they get."""
        patterns = "".join(f"/{path}\n" for path in paths.values())
        self._run("sparse-checkout", "set", "--no-cone", "--stdin", given=patterns)
        self._run("checkout", "--quiet", "--detach", commit)
        return {name: (self._folder / path).read_bytes() for name, path in paths.items()}

    def _require_reachable(self) -> None:
        answer = self._try("ls-remote", "--quiet", "origin")
        if answer.returncode != 0:
            raise DeviceError(
                f"cannot reach {self._source} ({_last_line(answer.stderr)}): check the network, or give "
                "the path of a clone or a mirror's URL with --repository"
            )

    def _run(self, *arguments: str, given: str = "") -> str:
        done = self._try(*arguments, given=given)
        if done.returncode != 0:
            raise DeviceError(
                f"git {arguments[0]} failed for {self._source}: {_last_line(done.stderr)}"
            )
        return done.stdout.decode("utf-8", "surrogateescape")

    def _try(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[bytes]:
        command = ["git", "-C", str(self._folder), "-c", "core.autocrlf=false", *arguments]
        environment = {
            name: value
            for name, value in settings.environment_copy().items()
            if name not in _OWN_VARIABLES
        }
        try:
            return subprocess.run(
                command,
                env=environment | _QUIET_GIT,
                input=given.encode("utf-8", "surrogateescape"),
                capture_output=True,
                timeout=_GIT_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise DeviceError("git is not installed; the problems are brought with it") from None
        except subprocess.TimeoutExpired:
            raise DeviceError(
                f"{self._source} did not answer within {_GIT_TIMEOUT_S} s; give the path of a clone "
                "with --repository"
            ) from None


_OWN_VARIABLES = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"})
"""Set inside git hooks; they would send our commands to another repository."""


def _last_line(output: bytes) -> str:
    lines = [
        line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()
    ]
    return lines[-1] if lines else "git said nothing"
