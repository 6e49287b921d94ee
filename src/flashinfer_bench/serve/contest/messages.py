"""What teams and organisers of a contest send and get: nothing that a team gets tells of a workload or a seed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from flashinfer_bench.data import Solution
from flashinfer_bench.data.entity import Entity
from flashinfer_bench.serve.contest.rules import Rules
from flashinfer_bench.serve.messages import Name

ReviewState = Literal["automatic", "accepted", "rejected"]


class NewEntry(Entity):
    """A solution that a team enters."""

    solution: Solution


class Review(Entity):
    """What people say of an entry; `automatic` where nobody looked."""

    state: ReviewState = "automatic"
    reason: str = Field("", max_length=2_000)


class NewReview(Review):
    """What is said of which entry."""

    entry: Name


class EntryState(Entity):
    """How far an entry is."""

    entry: str
    definition: str
    solution: str
    status: Literal["pending", "running", "ended"]
    outcome: Literal["passed", "failed", "not_evaluated"] | None = None
    """`not_evaluated` is not the solution's fault, and does not count as an entry."""
    statuses: dict[str, int] = Field(default_factory=dict)
    """How many workloads ended so."""
    score: float | None = None
    """Geometric mean of the speedups over the reference; null unless all workloads passed."""
    log: list[str] = Field(default_factory=list)
    """What the judge says. What the solution and its build printed is withheld: it could tell of workloads."""
    review: Review = Field(default_factory=Review)


class EntryList(Entity):
    """A team's entries, the newest first."""

    entries: list[EntryState]


class ContestState(Entity):
    """What a contest is, and whether entries are taken."""

    name: str
    definitions: list[str]
    kinds: list[str]
    """Of devices."""
    deadline: str | None
    is_open: bool
    most_entries: int
    entries_left: int
    key: str
    """What the archive will be signed with."""


class RankedTeam(Entity):
    """A team that is ranked."""

    rank: int
    team: str
    solution: str
    score: float
    lowest: float
    """Of the runs; one before the end."""
    highest: float
    review: Review
    entry: str | None = None
    """For organisers."""


class UnrankedTeam(Entity):
    """A team that is not."""

    team: str
    reason: str


class DefinitionBoard(Entity):
    """The teams on one definition."""

    definition: str
    ranked: list[RankedTeam]
    unranked: list[UnrankedTeam]


class ContestBoard(Entity):
    """How teams stand."""

    contest: str
    is_final: bool
    """Whether leaders were evaluated again."""
    definitions: list[DefinitionBoard]


class Closing(Entity):
    """How far the end of a contest is."""

    is_closed: bool
    waiting_for: int
    """Evaluations."""


class EntryRecord(Entity):
    """An entry in the archive."""

    entry: str
    team: str
    definition: str
    solution: str
    results: int
    """How many there are of one evaluation where all is well."""
    traces: list[str]
    """By id."""
    again: list[list[str]]
    """Of the secret evaluations."""
    review: Review


class Results(Entity):
    """All that a contest's ranking follows from, but for the traces."""

    rules: Rules
    entries: list[EntryRecord]
    board: ContestBoard
