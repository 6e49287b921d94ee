"""The rules of a contest, and the folder that holds all of it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from flashinfer_bench.data import load_json_file
from flashinfer_bench.data.entity import Entity, NonEmptyStr
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

ORGANISER = "organiser"
"""Who evaluates leaders again; no team has this name."""


class Rules(Entity):
    """What holds for all teams of a contest."""

    name: NonEmptyStr
    teams: list[NonEmptyStr] = Field(min_length=1)
    deadline: str | None = None
    """ISO-8601, with its zone; without one the contest ends when it is closed."""
    most_entries: int = Field(20, ge=1)
    """Of each team; an entry that no machine could evaluate does not count."""
    leaders: int = Field(10, ge=1)
    """Teams whose best entry of a definition is evaluated again before they are ranked."""
    reruns: int = Field(3, ge=1)
    """How often."""
    hardware: NonEmptyStr = "any"
    settings: dict[str, Any] = Field(default_factory=dict)
    """Of all evaluations."""
    key: str
    """What the archive is signed with."""

    @field_validator("deadline")
    @classmethod
    def _has_zone(cls, deadline: str | None) -> str | None:
        if deadline is not None and dt.datetime.fromisoformat(deadline).tzinfo is None:
            raise ValueError("has no zone: 2026-12-01T12:00:00+00:00 has")
        return deadline

    def is_over(self, now_s: float) -> bool:
        """Whether the deadline has passed."""
        if self.deadline is None:
            return False
        return now_s >= dt.datetime.fromisoformat(self.deadline).timestamp()


@dataclass(frozen=True, slots=True)
class ContestFolder:
    """Where a contest lies on its organiser's machine; nobody else may look into it."""

    root: Path

    @property
    def rules_file(self) -> Path:
        """The rules."""
        return self.root / "contest.json"

    @property
    def dataset(self) -> Path:
        """Definitions and private workloads; later what teams entered, and its traces."""
        return self.root / "dataset"

    @property
    def store(self) -> Path:
        """Entries, tokens and reviews."""
        return self.root / "store.sqlite"

    @property
    def key(self) -> Path:
        """The private key that signs the archive."""
        return self.root / "contest.key"

    def token(self, name: str) -> Path:
        """The token of a team, a worker or the organiser."""
        return self.root / "tokens" / f"{name}.token"

    def rules(self) -> Rules:
        """Read the rules."""
        if not self.rules_file.is_file():
            raise UsageError(f"{self.root} holds no contest: `contest init {self.root}` makes one")
        return load_json_file(Rules, self.rules_file)
