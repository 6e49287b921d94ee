"""Which processes have been started by which, and how long they waited, as /proc tells it."""

from __future__ import annotations

from pathlib import Path

from flashinfer_bench.tensors.threads import told_of_threads

_PROC = Path("/proc")


def children_of(pid: int, *, proc: Path = _PROC) -> set[int]:
    """Find the processes that a process has started, or adopted, and that have not been waited for."""
    return {int(word) for told in told_of_threads(pid, "children", proc=proc) for word in told}


def waited_ns(pid: int, *, proc: Path = _PROC) -> int:
    """Sum up how long the threads of a process were ready to run and did not: schedstat's second number."""
    told = told_of_threads(pid, "schedstat", proc=proc)
    return sum(int(words[1]) for words in told if len(words) > 1)


def descendants_of(
    pid: int, *, without: frozenset[int] = frozenset(), proc: Path = _PROC
) -> set[int]:
    """Find all below a process but those in `without` and what is below them only.

    A hostile chain of processes may be longer than Python nests calls.
    """
    found: set[int] = set()
    parents = [pid]
    while parents:
        children = children_of(parents.pop(), proc=proc) - without - found
        found |= children
        parents.extend(children)
    return found
