"""Which call of a trial is meant: its kind, and a number. What inputs it gets follows from both."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal[
    "timed",
    "repeated",
    "unusual",
    "untimed",
    "batch",
    "control",
    "timed_again",
    "property",
    "twice",
    "generated",
    "discarded",
]
MOST_OF_A_BLOCK = 1_000_000
"""Samples; no block has as many."""

_PLACES: dict[Kind, tuple[int, int]] = {
    "timed": (0, 1),
    "repeated": (-1, -1),
    "unusual": (-2, -1),
    "untimed": (-10, -1),
    "batch": (-1_000_000, -1),
    "control": (-2_000_000, -1),
    "timed_again": (-1 << 40, -1),
    "property": (-6_000_000, -1),
    "twice": (-7_000_000, -1),
    "generated": (-8_000_000, -1),
    "discarded": (1 << 40, 1),
}
"""Where the numbers of a kind begin, and which way they go: no two kinds meet, so no two calls get the same inputs."""


class CallId(NamedTuple):
    """One call of a trial, or the first of several in a sample.

    `timed`: those of the schedule; number 0 opens the trial and is always checked, then come the warm-up calls.
    `repeated`: on the same inputs, for judges that look at several outputs together. `unusual`: one for each family
    of unusual inputs. `untimed`: between blocks. `batch`: for the judge's own clock. `control`: of trusted
    processes. `timed_again`: for blocks that did not count. `property`: whose changed inputs must change the
    outputs in a known way. `twice`: whether the same inputs give the same bits. `generated`: what the definition's
    function for inputs draws by. `discarded`: inputs that are made and not used.
    """

    kind: Kind
    number: int

    @property
    def seed_number(self) -> int:
        """The number its seed is made of; reports and logs show it."""
        start, step = _PLACES[self.kind]
        return start + step * self.number

    def __str__(self) -> str:
        return str(self.seed_number)


def is_rewritten_late(seed_number: int) -> bool:
    """Tell whether a part of a call's inputs is written anew once it is launched.

    Not of batches, whose times are compared with each other: more calls would take longer to write. Nobody gains by
    computing the inputs of a batch early.

    >>> [is_rewritten_late(CallId(kind, 1).seed_number) for kind in ("timed", "timed_again", "control", "untimed")]
    [True, True, True, True]
    >>> [is_rewritten_late(CallId(kind, 1).seed_number) for kind in ("batch", "repeated", "unusual", "discarded")]
    [False, False, False, False]
    """
    return _kind_of(seed_number) in ("timed", "timed_again", "control", "untimed")


def _kind_of(seed_number: int) -> Kind:
    """Give the kind of a call by the number its seed is made of: the last whose numbers begin before it."""
    way = 1 if seed_number >= 0 else -1
    begun = [
        (abs(start), kind)
        for kind, (start, step) in _PLACES.items()
        if step == way and abs(start) <= abs(seed_number)
    ]
    return max(begun)[1]


FIRST = CallId("timed", 0)
"""The call that opens a trial."""
