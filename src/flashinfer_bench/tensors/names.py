"""Which dotted names torch lacks, asked in a process of its own: `python -m flashinfer_bench.tensors.names`.

Reads a JSON list of names from stdin; writes those that do not exist with a suggestion, as a JSON
object, to stdout.
"""

from __future__ import annotations

import difflib
import importlib
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def missing(names: Iterable[str]) -> dict[str, str]:
    """Give the names that do not exist, each with the nearest that does, or an empty text.

    >>> missing(["torch.relu", "torch.rsqr"])
    {'torch.rsqr': 'torch.rsqrt'}
    """
    found = {name: _nearest_if_missing(name) for name in names}
    return {name: nearest for name, nearest in found.items() if nearest is not None}


def _nearest_if_missing(dotted: str) -> str | None:
    first, *rest = dotted.split(".")
    here: object = importlib.import_module(first)
    path = first
    for part in rest:
        if not hasattr(here, part) and not _is_module(f"{path}.{part}"):
            near = difflib.get_close_matches(part, dir(here), n=1)
            return f"{path}.{near[0]}" if near else ""
        here = getattr(here, part)
        path = f"{path}.{part}"
    return None


def _is_module(dotted: str) -> bool:
    try:
        importlib.import_module(dotted)
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    json.dump(missing(json.load(sys.stdin)), sys.stdout)
