"""What a model is asked, and the code in what it answers."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from flashinfer_bench.agents.guides import guide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.agents.generation.endpoint import Message
    from flashinfer_bench.data import Definition, Workload

_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SYSTEM = "You write fast, right kernels. Answer with one code block that holds the whole file, and nothing after it."


def messages_for(
    definition: Definition,
    visible: Sequence[Workload],
    language: str,
    parent: tuple[str, str] | None,
) -> list[Message]:
    """Write a request; `parent` is the best kernel so far, and what became of it."""
    sizes = [json.dumps(each.axes) for each in visible]
    asked = [
        f"Implement `{definition.name}` in {language}.",
        f"```json\n{definition.signature().model_dump_json(indent=1, exclude_none=True)}\n```",
        f"The reference:\n```python\n{definition.reference}\n```",
        f"Some of the sizes that it must be right and fast for: {', '.join(sizes)}. Others are tried as well.",
    ]
    if parent is not None:
        code, feedback = parent
        asked += [
            f"The best kernel so far:\n```\n{code}\n```",
            f"What became of it:\n```json\n{feedback}\n```",
            "Repair it if it is wrong; if it is right, make it faster.",
        ]
    return [
        {"role": "system", "content": f"{_SYSTEM}\n\n{guide(language)}"},
        {"role": "user", "content": "\n\n".join(asked)},
    ]


def prompt_hash(messages: Sequence[Message]) -> str:
    """Identify a request."""
    return hashlib.sha256(json.dumps(list(messages), sort_keys=True).encode()).hexdigest()


def code_in(text: str) -> str | None:
    r"""Take the longest code block of an answer; None where it has none.

    >>> code_in("Here:\n```python\nx = 1\n```\n")
    'x = 1\n'
    """
    found: list[str] = _BLOCK.findall(text)
    return max(found, key=len) if found else None
