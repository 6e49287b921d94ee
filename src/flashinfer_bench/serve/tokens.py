"""Who may do what: tenants, their quotas, and tokens of which the store keeps hashes only."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from flashinfer_bench.data import layout
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashinfer_bench.serve.database import Database, Row

Scope = Literal["read", "submit", "worker", "admin", "team"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_BEGINS = "fib_"
_MOST = 2**62
_MOST_NAME = 60


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks, and what for."""

    tenant: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Tell whether a scope is granted; whoever may submit may read what became of it."""
        implied = {"submit"} if scope == "read" else set()
        return bool({scope, *implied} & self.scopes)

    @property
    def sees(self) -> str | None:
        """Whose tasks are seen: one's own, or with `admin` all."""
        return None if "admin" in self.scopes else self.tenant


LOCAL = Requester("local", frozenset({"read", "submit"}))
"""Whoever is on the same machine, where no tokens were made."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """What a tenant may ask for."""

    most_queued: int = 1_000
    most_per_minute: int = 600
    device_seconds_per_day: float = 86_400.0


UNLIMITED = Quotas(_MOST, _MOST, float(_MOST))


class Tokens:
    """The tenants and tokens of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._set_tenant(LOCAL.tenant, UNLIMITED, changes=False)

    def add(self, tenant: str, scopes: Iterable[Scope], quotas: Quotas | None = None) -> str:
        """Make a token, and its tenant where there is none; this is the only time that it is told."""
        _require_name(tenant)
        self._set_tenant(tenant, quotas or Quotas(), changes=quotas is not None)
        token = _BEGINS + secrets.token_urlsafe(32)
        with self._database.transaction() as say:
            say.change(
                "INSERT INTO tokens VALUES (:id, :hash, :tenant, :scopes, :now, NULL)",
                id=secrets.token_hex(4),
                hash=_hash(token),
                tenant=tenant,
                scopes=" ".join(sorted(set(scopes))),
                now=time.time(),
            )
        return token

    def all(self) -> list[Row]:
        """List tokens with their tenants and quotas; what the tokens are, nobody knows."""
        with self._database.reading() as say:
            return say.rows(
                "SELECT k.id, k.tenant, k.scopes, k.created_s, k.revoked_s, t.most_queued, t.most_per_minute,"
                " t.device_seconds_per_day FROM tokens k JOIN tenants t ON t.name = k.tenant"
                " ORDER BY k.created_s"
            )

    def revoke(self, token_id: str) -> None:
        """Let a token count no longer."""
        with self._database.transaction() as say:
            changed = say.change(
                "UPDATE tokens SET revoked_s = :now WHERE id = :id AND revoked_s IS NULL",
                id=token_id,
                now=time.time(),
            )
        if not changed:
            raise UsageError(f"no token {token_id!r} that counts; `tokens list` names them")

    def are_demanded(self) -> bool:
        """Whether a token was ever made: then nobody does anything without one."""
        with self._database.reading() as say:
            return bool(say.value("SELECT count(*) FROM tokens"))

    def caller(self, token: str) -> Requester | None:
        """Find whose token this is; None where it is nobody's, or was revoked."""
        with self._database.reading() as say:
            row = say.row(
                "SELECT tenant, scopes FROM tokens WHERE hash = :hash AND revoked_s IS NULL",
                hash=_hash(token),
            )
        if row is None:
            return None
        held = row["scopes"].split()
        return Requester(row["tenant"], frozenset(each for each in SCOPES if each in held))

    def _set_tenant(self, name: str, quotas: Quotas, *, changes: bool) -> None:
        with self._database.transaction() as say:
            say.change(
                "INSERT INTO tenants (name, most_queued, most_per_minute, device_seconds_per_day)"
                " VALUES (:name, 0, 0, 0) ON CONFLICT (name) DO NOTHING",
                name=name,
            )
            say.change(
                "UPDATE tenants SET most_queued = :queued, most_per_minute = :minute,"
                " device_seconds_per_day = :device WHERE name = :name AND (:changes = 1 OR most_queued = 0)",
                name=name,
                queued=quotas.most_queued,
                minute=quotas.most_per_minute,
                device=quotas.device_seconds_per_day,
                changes=int(changes),
            )


def _require_name(tenant: str) -> None:
    """Refuse what cannot be an author's folder, or is somebody else: what others are ranked against, the local user."""
    if not layout.is_name(tenant) or not tenant.isprintable() or len(tenant) > _MOST_NAME:
        raise UsageError(f"{tenant!r} cannot be a tenant: its traces lie in a folder of that name")
    if tenant in {LOCAL.tenant, "baseline"}:
        raise UsageError(f"{tenant!r} has a meaning of its own; name the tenant otherwise")


def _hash(token: str) -> str:
    """Hash a token; it has 256 bits of chance, so a plain hash cannot be reversed by trying."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
