"""What only running code can tell: the codes, what they stand for, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from flashinfer_bench.data.rules.finding import Finding, Level

_TIGHTER = "judge more strictly (`rtol`, `atol`: `--config`), or declare inputs of another scale for the workload"


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that holds for a good dataset, and shows when its code runs."""

    code: str
    level: Level
    claim: str
    remedy: str

    def finding(
        self, message: str, definition: str | None, *, path: str = "", level: Level | None = None
    ) -> Finding:
        """Say that it does not hold; a note needs nothing done."""
        chosen = level or self.level
        return Finding(
            code=self.code,
            level=chosen,
            message=message,
            remedy="" if chosen is Level.INFO else self.remedy,
            path=path,
            definition=definition,
        )


_OBSERVATIONS = (
    Observation(
        "DEF-17",
        Level.ERROR,
        "References ask torch for nothing that it does not have.",
        "correct the name, or install the torch that has it",
    ),
    Observation(
        "PRO-06",
        Level.ERROR,
        "The code of profiles asks torch for nothing that it does not have.",
        "correct the name, or install the torch that has it",
    ),
    Observation(
        "BEN-02", Level.WARNING, "There are workloads to run.", "add a line under `workloads/`"
    ),
    Observation(
        "BEN-03",
        Level.WARNING,
        "There is a baseline to run.",
        "add a solution whose author is `baseline`",
    ),
    Observation("BEN-04", Level.ERROR, "A run comes to its end.", "see what the message says"),
    Observation(
        "BEN-05",
        Level.ERROR,
        "Baselines pass on every workload.",
        "correct the baseline; `flashinfer-bench run --solutions NAME` shows more",
    ),
    Observation(
        "BEN-06",
        Level.ERROR,
        "The reference, run as a solution, passes on every workload.",
        "correct the reference or the workload",
    ),
    Observation(
        "TSK-01",
        Level.ERROR,
        "The reference runs, returns what is declared and leaves its inputs alone.",
        "correct the reference or the workload",
    ),
    Observation(
        "TSK-02",
        Level.ERROR,
        "The reference agrees with itself, run twice and in two processes, ten times more closely "
        "than solutions must.",
        "take out what differs from run to run, or judge with a wider tolerance",
    ),
    Observation(
        "TSK-03",
        Level.WARNING,
        "The reference draws no random numbers of its own, unless its judge is one for samples.",
        "make what is random an input: no solution can draw the same numbers",
    ),
    Observation(
        "TSK-04",
        Level.ERROR,
        "Baselines agree with the reference.",
        "correct whichever is wrong: nothing can be ranked against a failure",
    ),
    Observation(
        "TSK-05",
        Level.WARNING,
        "No answer passes that takes no work: zeros, ones, the output's mean, a copy of an input.",
        _TIGHTER,
    ),
    Observation(
        "TSK-06",
        Level.WARNING,
        "The tolerance looks at most elements: nine in ten wrong ones are not let pass.",
        _TIGHTER,
    ),
    Observation(
        "TSK-07",
        Level.WARNING,
        "Outputs vary with the inputs' draw.",
        "let inputs be random, of a scale at which the output depends on them, or judge more strictly",
    ),
    Observation(
        "TSK-08",
        Level.WARNING,
        "The calls of a trial get different inputs.",
        "let an input be random and of role `dynamic`, or a stored one `scaled` or `permuted`: a kernel that "
        "remembers its output passes",
    ),
    Observation(
        "TSK-09",
        Level.ERROR,
        "What is drawn is what the declared distributions say.",
        "report this: the generator is at fault",
    ),
    Observation(
        "TSK-10",
        Level.INFO,
        "The task can be looked at here.",
        "run it on a machine that can",
    ),
)

OBSERVATIONS = {each.code: each for each in _OBSERVATIONS}
"""By code."""
