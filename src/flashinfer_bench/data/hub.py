"""Dataset repositories of the Hugging Face hub: brought into its cache at a revision, and read from there."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import settings
from flashinfer_bench.errors import DeviceError, MissingPackageError, UsageError

if TYPE_CHECKING:
    from types import ModuleType

FLASHINFER_TRACE = "flashinfer-ai/flashinfer-trace"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_SNAPSHOT = re.compile(r"datasets--(.+?)--(.+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TIMEOUT_S = 10.0


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


@dataclass(frozen=True, slots=True)
class CachedRevision:
    """What an earlier pull left."""

    commit: str
    refs: tuple[str, ...]
    """Branches and tags that were this commit when they were pulled."""
    size_bytes: int
    folder: str


@dataclass(frozen=True, slots=True)
class Status:
    """What lies here of a repository, and what the hub has."""

    repository: str
    revision: str
    newest: str | None
    """Commit of the revision on the hub; None where it could not be asked."""
    cached: tuple[CachedRevision, ...]


def pull(repository: Repository) -> Pulled:
    """Bring a revision into the cache, as far as it is not there; without the hub, use what is there."""
    if _COMMIT.fullmatch(repository.revision):  # never changes: what is here need not be asked for
        with contextlib.suppress(_errors().LocalEntryNotFoundError):
            return _snapshot(repository, is_local=True, is_current=True)
    newest = _newest(repository)
    try:
        return _snapshot(repository, is_local=newest is None, is_current=newest is not None)
    except _failures() as error:
        raise DeviceError(_unreached(repository, has_answered=newest is not None)) from error


def _snapshot(repository: Repository, *, is_local: bool, is_current: bool) -> Pulled:
    folder = _huggingface_hub().snapshot_download(
        repository.name,
        repo_type="dataset",
        revision=repository.revision,
        cache_dir=settings.hub_cache_path(),
        endpoint=settings.hub_endpoint(),
        local_files_only=is_local,
    )
    commit = Path(folder).name
    return Pulled(repository.name, repository.revision, commit, folder, is_current)


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
            )
            for repo in found
            if (repo.repo_type, repo.repo_id) == ("dataset", repository.name)
            for each in sorted(repo.revisions, key=lambda each: -each.last_modified)
        )
    return Status(repository.name, repository.revision, _newest(repository), cached)


def commit_of(folder: Path) -> str | None:
    """Tell which commit of a dataset repository a folder of the hub's cache is; None for any other."""
    is_snapshot = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if is_snapshot and _SNAPSHOT.fullmatch(folder.parents[1].name) else None


def _newest(repository: Repository) -> str | None:
    """Ask the hub for the revision's commit; None where it cannot be reached."""
    if settings.is_hub_offline():
        return None
    api = _huggingface_hub().HfApi(endpoint=settings.hub_endpoint())
    errors = _errors()
    named = f"{repository.name} on {settings.hub_endpoint()}"
    try:
        commit: str | None = api.dataset_info(
            repository.name, revision=repository.revision, timeout=_TIMEOUT_S
        ).sha
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
    except _failures():
        return None
    return commit


def _unreached(repository: Repository, *, has_answered: bool) -> str:
    what = f"{repository.name}@{repository.revision}"
    if has_answered:
        return f"{what} could not be brought whole: the connection broke or the disk is full; pull again"
    why = (
        "HF_HUB_OFFLINE is set"
        if settings.is_hub_offline()
        else f"{settings.hub_endpoint()} is not reached"
    )
    return (
        f"{what} is not in {settings.hub_cache_path()}, and {why}: "
        f"run `flashinfer-bench hub pull {repository.name}` where there is a network"
    )


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
