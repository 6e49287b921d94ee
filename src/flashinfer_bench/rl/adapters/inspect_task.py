"""A task of Inspect: one sample a definition, and the reward of `judge` as its score.

`inspect eval flashinfer_bench/kernels -T dataset=DIR --model MODEL` runs it. A sample without a
verdict is unscored: it is left out of the mean.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from flashinfer_bench.errors import MissingPackageError
from flashinfer_bench.rl.policy_tasks import NoVerdictError, PolicyTasks

try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import generate
except ImportError:
    raise MissingPackageError(
        "inspect-ai", extra="inspect", needed_for="the Inspect task"
    ) from None

if TYPE_CHECKING:
    from inspect_ai.solver import TaskState


@task  # type: ignore[untyped-decorator]  # it may not be installed
def kernels(  # noqa: PLR0917  # `-T` passes them by name
    dataset: str | None = None,
    split: str = "validation",
    definitions: str = "",
    language: str = "python",
    device: str = "auto",
    ledger: str | None = None,
    self_check: bool = True,
) -> Task:
    """Write kernels; `definitions` are names with commas between them, all of the split where it is empty."""
    judging = PolicyTasks(
        dataset,
        split=split,
        definitions=[each for each in definitions.split(",") if each],
        language=language,
        device=device,
        ledger=ledger,
        self_check=self_check,
    )
    samples = [
        Sample(input=each.prompt, id=each.definition, metadata={"definition": each.definition})
        for each in judging.tasks()
    ]
    return Task(
        dataset=MemoryDataset(samples),
        solver=generate(),
        scorer=kernel_reward(judging),
        display_name="kernels",
    )


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator]
def kernel_reward(judging: PolicyTasks) -> Scorer:
    """Score an answer by its reward, from -1 to 1; the explanation is the feedback."""

    async def score(state: TaskState, target: Target) -> Score:
        del target
        answer, name = state.output.completion, state.metadata["definition"]
        try:
            found = await asyncio.to_thread(judging.score, answer, name)
        except NoVerdictError as error:
            return Score.unscored(explanation=str(error))
        assert found.reward is not None  # `score` raises where there is none
        return Score(
            value=found.reward,
            answer=answer,
            explanation=found.feedback,
            metadata={
                "right": found.right,
                "speedup_lower": found.speedup_lower,
                "sol_fraction": found.sol_fraction,
                "device_seconds": found.cost.device_seconds,
            },
        )

    return score
