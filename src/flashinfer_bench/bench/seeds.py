"""Seeds of everything random in a job: they follow from its key, and from nothing else."""

from __future__ import annotations

import functools
import hashlib
import hmac


def subject_of(definition_name: str, workload_uuid: str) -> str:
    """Name what the inputs belong to."""
    return f"{definition_name}\0{workload_uuid}"


def pools_seed(key: int, subject: str, trial: int) -> int:
    """Seed of a trial's pools."""
    return _seed(key, subject, f"pools\0{trial}")


@functools.lru_cache(maxsize=4096)
def call_seed(key: int, subject: str, trial: int, call: int) -> int:
    """Seed of what a call's inputs are made of; asked for several times a call, so it is kept."""
    return _seed(key, subject, f"call\0{trial}\0{call}")


@functools.lru_cache(maxsize=4096)
def late_seed(key: int, subject: str, trial: int, call: int) -> int:
    """Seed of what a call's inputs get once it is launched; never 0."""
    return _seed(key, subject, f"late\0{trial}\0{call}") | 1


def rank_key(key: int, rank: int | None) -> int:
    """Key of one rank's own inputs, or of those that all ranks share (None)."""
    return _seed(key, "ranks", "shared" if rank is None else str(rank))


def _seed(key: int, subject: str, purpose: str) -> int:
    message = f"{subject}\0{purpose}".encode()
    digest = hmac.digest(key.to_bytes(8, "little"), message, hashlib.sha256)
    return int.from_bytes(digest[:8], "little") >> 1
