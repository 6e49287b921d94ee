"""What pages and places on them are called: safe in a path and in an address, and the same every time."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

_UNSAFE = re.compile(r"[^a-z0-9_.-]+")
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.-]*")
_HASHED = re.compile(r".*-[0-9a-f]{16}")
_LONGEST = 80
# Names that one operating system or another keeps for devices, whatever the suffix.
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
)


@lru_cache(maxsize=20_000)
def slug(name: str) -> str:
    """Turn a name into part of a path; two names never share one.

    What is safe stays as it is; anything else is made so, and marked with a hash of the whole name.

    >>> slug("rmsnorm_h4096")
    'rmsnorm_h4096'
    >>> slug("../../x")
    'x-9cdf6a50100a862e'
    """
    if _is_plain(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    kept = _UNSAFE.sub("-", name.lower()).strip("-.")[: _LONGEST - 19].strip("-.")
    if kept.partition(".")[0] in _RESERVED:
        kept = f"x-{kept}"
    return f"{kept or 'x'}-{digest}"


def _is_plain(name: str) -> bool:
    return (
        len(name) <= _LONGEST
        and _PLAIN.fullmatch(name) is not None
        and not name.endswith(".")
        and name.partition(".")[0] not in _RESERVED
        and _HASHED.fullmatch(name) is None
    )
