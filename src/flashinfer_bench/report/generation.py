"""How a program came to a solution: what `generate` and the like wrote into traces, as pages show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flashinfer_bench.data import Solution
    from flashinfer_bench.data.trace import Evaluation

_SHORT_HASH = 15
_LEAST_IN_CENTS = 0.1


def newest_generation(
    evaluations: Iterable[Evaluation], code: str, known: Iterable[Solution]
) -> dict[str, Any] | None:
    """Find what evaluations of this code, the newest first, say of how it was written; None where none does.

    `known` are solutions among which the one may be that it was made from: it is named, as `parent_solution`.
    """
    for evaluation in evaluations:
        provenance = evaluation.provenance
        if provenance is None or provenance.generated is None or provenance.solution_hash != code:
            continue
        parent = provenance.generated.parent
        names = [each.name for each in known if parent is not None and each.hash() == parent]
        document: dict[str, Any] = provenance.generated.to_dict()
        return document | {"parent_solution": names[0] if names else None}
    return None


def generation_facts(generated: Mapping[str, Any] | None) -> dict[str, str]:
    """Say which model wrote a solution, from what, and what the search took up to it."""
    if generated is None:
        return {}
    cost = generated.get("cost_usd")
    facts = {
        "written by": f"{generated['model']} at {generated['endpoint']}, round {generated['round']}",
        "made from": generated["parent_solution"] or (generated.get("parent") or "")[:_SHORT_HASH],
        "tokens": f"{generated['prompt_tokens']:,} sent, {generated['completion_tokens']:,} received",
        "cost": "" if cost is None else usd_text(cost),
    }
    return {name: text for name, text in facts.items() if text}


def usd_text(usd: float) -> str:
    """Write a sum of money, small ones with two digits.

    >>> usd_text(12.3), usd_text(0.00456), usd_text(0.0)
    ('$12.30', '$0.0046', '$0.00')
    """
    return f"${usd:.2f}" if usd >= _LEAST_IN_CENTS or not usd else f"${usd:.2g}"
