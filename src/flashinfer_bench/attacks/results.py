"""How every attack and look-alike ended on one machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttackRow:
    """How one attack or look-alike ended on this machine."""

    name: str
    title: str
    family: str
    expected: tuple[str, ...]
    got: str
    """Status and codes; empty where it did not run."""
    evidence: str
    as_documented: bool | None
    """Whether it ended as the docs say; None where it did not run."""
    is_stopped: bool | None
    """Whether a hostile one won nothing; None for look-alikes and for what did not run."""
    not_run_because: str | None
    elapsed_s: float

    @property
    def is_hostile(self) -> bool:
        """Whether it is an attack."""
        return self.family != "honest"


@dataclass(frozen=True, slots=True)
class AttackReport:
    """The whole suite on one machine."""

    device: str
    hardware: str
    torch: str
    sandbox: str
    date: str
    """UTC, ISO 8601."""
    rows: tuple[AttackRow, ...]
    leftovers: tuple[str, ...]
    """What was still there when all jobs had ended."""
    elapsed_s: float
    is_complete: bool = True
    """False where it was interrupted, and `rows` are those that had ended."""

    @property
    def surprises(self) -> tuple[AttackRow, ...]:
        """What did not end as documented."""
        return tuple(row for row in self.rows if row.as_documented is False)

    @property
    def is_as_documented(self) -> bool:
        """Whether everything ended as documented, and nothing was left behind."""
        return not self.surprises and not self.leftovers
