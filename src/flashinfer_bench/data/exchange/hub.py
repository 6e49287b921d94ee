"""Dataset repositories of the Hugging Face hub: brought into its cache at a revision, and read from there."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import settings
from flashinfer_bench.errors import DatasetError, DeviceError, MissingPackageError, UsageError

if TYPE_CHECKING:
    from types import ModuleType

FLASHINFER_TRACE = "flashinfer-ai/flashinfer-trace"
_REPOSITORY = re.compile(
    r"(?=.{3,96}$)(?!.*(--|\.\.))[A-Z0-9_][\w.-]*(?<![.-])/[A-Z0-9_][\w.-]*(?<![.-])",
    re.ASCII | re.IGNORECASE,
)
_SNAPSHOT = re.compile(r"datasets--(.+?)--(.+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TIMEOUT_S = 10.0
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True, slots=True)
class Repository:
    """A dataset repository, and which revision of it is wanted."""

    name: str
    revision: str

    @classmethod
    def named(cls, text: str) -> Repository:
        """Read `ORG/NAME` or `ORG/NAME@REVISION`."""
        name, at, revision = text.partition("@")
        if not _REPOSITORY.fullmatch(name) or (at and not revision):
            raise UsageError(
                f"{text!r} is no dataset repository: write ORG/NAME or ORG/NAME@REVISION, "
                f"such as {FLASHINFER_TRACE}"
            )
        return cls(name, revision or "main")


@dataclass(frozen=True, slots=True)
class Pulled:
    """A revision that lies in the cache."""

    repository: str
    revision: str
    commit: str
    folder: str
    is_current: bool
    """False where the hub could not be asked, and what an earlier pull left may be old."""
    why_not: str | None = None
    """Why the hub could not be asked."""


@dataclass(frozen=True, slots=True)
class CachedRevision:
    """What an earlier pull left."""

    commit: str
    refs: tuple[str, ...]
    """Branches and tags that were this commit when they were pulled."""
    size_bytes: int
    folder: str
    is_whole: bool
    """False where a pull was interrupted."""


@dataclass(frozen=True, slots=True)
class Status:
    """What lies here of a repository, and what the hub has."""

    repository: str
    revision: str
    newest: str | None
    """Commit of the revision on the hub; None where it could not be asked."""
    cached: tuple[CachedRevision, ...]
    why_not: str | None = None
    """Why the hub could not be asked."""


@dataclass(frozen=True, slots=True)
class _Newest:
    """What the hub says of a revision: its commit, or why it says nothing."""

    commit: str | None
    why_not: str | None = None
    remedy: str | None = None
    """What helps, where that is not a network."""


def pull(repository: Repository) -> Pulled:
    """Bring a revision into the cache, as far as it is not there; without the hub, use what is there."""
    if _COMMIT.fullmatch(repository.revision):  # never changes: what is here need not be asked for
        with contextlib.suppress(_errors().LocalEntryNotFoundError):
            return _snapshot(repository, is_local=True)
    newest = _newest(repository)
    try:
        return _snapshot(repository, is_local=newest.commit is None, why_not=newest.why_not)
    except _errors().IncompleteSnapshotError as error:
        raise DeviceError(_not_here(repository, newest, "is here in part only")) from error
    except _failures() as error:
        raise DeviceError(_broken(repository, newest, error)) from error
    except ValueError as error:  # the client's own checks, such as of paths that leave the folder
        raise DatasetError(f"{_named(repository)} is refused: {error}") from error


def _snapshot(repository: Repository, *, is_local: bool, why_not: str | None = None) -> Pulled:
    folder = _huggingface_hub().snapshot_download(
        repository.name,
        repo_type="dataset",
        revision=repository.revision,
        cache_dir=settings.hub_cache_path(),
        endpoint=settings.hub_endpoint(),
        local_files_only=is_local,
    )
    commit = Path(folder).name
    return Pulled(repository.name, repository.revision, commit, folder, why_not is None, why_not)


def status(repository: Repository) -> Status:
    """Look at what lies here, and ask the hub what it has."""
    hub = _huggingface_hub()
    cached: tuple[CachedRevision, ...] = ()
    if settings.hub_cache_path().is_dir():
        found = hub.scan_cache_dir(settings.hub_cache_path()).repos
        cached = tuple(
            CachedRevision(
                each.commit_hash,
                tuple(sorted(each.refs)),
                each.size_on_disk,
                str(each.snapshot_path),
                _is_whole(repository, each.commit_hash),
            )
            for repo in found
            if (repo.repo_type, repo.repo_id) == ("dataset", repository.name)
            for each in sorted(repo.revisions, key=lambda each: -each.last_modified)
        )
    newest = _newest(repository)
    return Status(repository.name, repository.revision, newest.commit, cached, newest.why_not)


def _is_whole(repository: Repository, commit: str) -> bool:
    """Tell whether all files of a commit are here."""
    try:
        _snapshot(Repository(repository.name, commit), is_local=True)
    except _errors().LocalEntryNotFoundError:
        return False
    return True


def name_of(snapshot: Path) -> str:
    """Name the repository that a folder of the hub's cache is of, without its owner."""
    return snapshot.parents[1].name.rpartition("--")[2]


def commit_of(folder: Path) -> str | None:
    """Tell which commit of a dataset repository a folder of the hub's cache is; None for any other."""
    is_snapshot = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if is_snapshot and _SNAPSHOT.fullmatch(folder.parents[1].name) else None


def _newest(repository: Repository) -> _Newest:
    """Ask the hub for the revision's commit."""
    if settings.is_hub_offline():
        return _Newest(None, "HF_HUB_OFFLINE is set")
    api = _huggingface_hub().HfApi(endpoint=settings.hub_endpoint())
    errors = _errors()
    named = f"{repository.name} on {settings.hub_endpoint()}"
    try:
        found = api.dataset_info(repository.name, revision=repository.revision, timeout=_TIMEOUT_S)
    except errors.RevisionNotFoundError:
        raise UsageError(f"no revision {repository.revision!r} of the dataset {named}") from None
    except errors.GatedRepoError:
        raise UsageError(
            f"the dataset {named} asks for its terms to be accepted: "
            "do so on its page, then log in with `hf auth login`"
        ) from None
    except errors.RepositoryNotFoundError:
        raise UsageError(
            f"no dataset {named}; if it is private, log in with `hf auth login`"
        ) from None
    except _failures() as error:
        return _unanswered(error)
    return _Newest(found.sha)


def _unanswered(error: BaseException) -> _Newest:
    """Say what the hub answered instead, or that it did not."""
    here = settings.hub_endpoint()
    code = _status_of(error)
    if code is None:
        return _Newest(None, f"{here} is not reached")
    phrase = f" {HTTPStatus(code).phrase}" if code in set(HTTPStatus) else ""
    login = "log in with `hf auth login`, or check HF_TOKEN"
    later = "pull again later, or check HF_ENDPOINT"
    return _Newest(None, f"{here} answered {code}{phrase}", login if code in _REFUSED else later)


def _status_of(error: BaseException | None) -> int | None:
    """Find the answer that an error, or what led to it, is about."""
    while error is not None:
        response = getattr(error, "response", None)
        if response is not None:
            return int(response.status_code)
        error = error.__cause__ or error.__context__
    return None


def _named(repository: Repository) -> str:
    return f"{repository.name}@{repository.revision}"


def _broken(repository: Repository, newest: _Newest, error: Exception) -> str:
    if newest.commit is None:
        return _not_here(repository, newest, f"is not in {settings.hub_cache_path()}")
    found = _unanswered(error)
    why, remedy = "the connection broke or the disk is full", "pull again for the rest"
    if found.remedy is not None:
        why, remedy = f"{found.why_not}", found.remedy
    return f"{_named(repository)} could not be brought whole: {why}; {remedy}"


def _not_here(repository: Repository, newest: _Newest, what: str) -> str:
    remedy = newest.remedy or (
        f"run `flashinfer-bench hub pull {repository.name}` where there is a network"
    )
    return f"{_named(repository)} {what}, and {newest.why_not}: {remedy}"


def _failures() -> tuple[type[Exception], ...]:
    """What the hub's client raises when there is no connection, none that works, or no room."""
    errors = _errors()
    transport: Any = importlib.import_module("httpx2")
    return (
        transport.TransportError,
        errors.HfHubHTTPError,
        errors.LocalEntryNotFoundError,
        errors.OfflineModeIsEnabled,
        OSError,
    )


def _errors() -> Any:
    _huggingface_hub()
    return importlib.import_module("huggingface_hub.errors")


def _huggingface_hub() -> ModuleType:
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError:
        raise MissingPackageError(
            "huggingface_hub", extra="hub", needed_for="reading datasets of the Hugging Face hub"
        ) from None
    if not sys.stderr.isatty():
        importlib.import_module("huggingface_hub.utils").disable_progress_bars()
    return hub
