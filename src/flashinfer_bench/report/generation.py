"""How a program came to a solution, as facts that pages show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.data.trace import GenerationInfo

_SHORT_HASH = 15
_LEAST_IN_CENTS = 0.1


def generation_facts(
    info: GenerationInfo | None, names: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Say which model wrote it, from what, and what the search took up to it; `names` has solutions by their hash."""
    if info is None:
        return {}
    parent = (names or {}).get(info.parent or "") or (info.parent or "")[:_SHORT_HASH]
    facts = {
        "model": f"{info.model} at {info.endpoint}, round {info.round}",
        "parent": parent,
        "tokens": f"{info.prompt_tokens:,} sent, {info.completion_tokens:,} received",
        "cost": "" if info.cost_usd is None else usd_text(info.cost_usd),
    }
    return {name: text for name, text in facts.items() if text}


def usd_text(usd: float) -> str:
    """Write a sum of money, small ones with two digits.

    >>> usd_text(12.3), usd_text(0.00456), usd_text(0.0)
    ('$12.30', '$0.0046', '$0.00')
    """
    return f"${usd:.2f}" if usd >= _LEAST_IN_CENTS or not usd else f"${usd:.2g}"
