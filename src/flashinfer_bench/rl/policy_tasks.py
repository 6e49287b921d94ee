"""What a policy is asked, and what its answer is worth: the part that all adapters share."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from flashinfer_bench.agents.generation.prompting import messages_for
from flashinfer_bench.errors import BenchError, DeviceError, UsageError
from flashinfer_bench.rl.candidates import code_of
from flashinfer_bench.rl.contract import KernelJudge
from flashinfer_bench.rl.splits import definitions_of, require_split

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.data import TraceSet
    from flashinfer_bench.rl.verdicts import JudgeBudget, KernelVerdict, Split


class NoVerdictError(BenchError):
    """A kernel could not be judged, and that is not its fault: the sample has to be left out."""

    exit_code = DeviceError.exit_code

    def __init__(self, verdict: KernelVerdict) -> None:
        super().__init__(f"no verdict ({verdict.cause}): {verdict.no_verdict}")
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class PolicyTask:
    """One thing to ask a policy."""

    definition: str
    split: Split
    prompt: str


class PolicyTasks:
    """Tasks of one split of a dataset, and a judge for the answers; one answer at a time, from any thread."""

    def __init__(
        self,
        dataset: TraceSet | str | Path | None = None,
        *,
        split: str = "train",
        definitions: Sequence[str] = (),
        language: str = "python",
        device: str = "auto",
        budget: JudgeBudget | None = None,
        config: BenchmarkConfig | None = None,
        ledger: Path | str | None = None,
        self_check: bool = False,
    ) -> None:
        self.judging = KernelJudge(
            dataset, device=device, config=config, ledger=ledger, self_check=self_check
        )
        self.split = require_split(split)
        self._definitions = tuple(definitions)
        self._language = language
        self._budget = budget
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the judge's workers."""
        self.judging.close()

    def tasks(self) -> list[PolicyTask]:
        """Make a task of each definition of the split that has workloads for this device.

        Raises `UsageError` where there is none, or a definition was asked for that has none.
        """
        names = self._definitions or tuple(
            definitions_of(self.split, self.judging.trace_set.definitions, self.judging.splits)
        )
        found = [self._task(name) for name in names if self._definitions or self._has(name)]
        if not found:
            raise UsageError(
                f"no definition of the split {self.split} has workloads for this device; "
                "name definitions, or declare splits in the dataset's splits.json"
            )
        return found

    def score(self, answer: str, definition: str) -> KernelVerdict:
        """Judge the last code block of an answer; raises `NoVerdictError` where there is no verdict."""
        with self._turn:
            found = self.judging.judge(code_of(answer), definition, self.split, self._budget)
        if found.no_verdict is not None:
            raise NoVerdictError(found)
        return found

    def _has(self, name: str) -> bool:
        try:
            self.judging.workloads(name, self.split)
        except UsageError:
            return False
        return True

    def _task(self, name: str) -> PolicyTask:
        """Ask for one definition; sizes of the split train are shown, and of no other."""
        definition = self.judging.definition(name)
        self.judging.workloads(name, self.split)
        shown = self.judging.shown_workloads(name)
        asked = messages_for(definition, shown, self._language, None)
        return PolicyTask(name, self.split, "\n\n".join(each["content"] for each in asked))
