"""A taskset of `verifiers`: one task a definition, and the reward of `judge`.

Its id is `flashinfer_bench_kernels`. Where there is no verdict the reward raises
`NoVerdictError`: the trace has an error and no reward, and a trainer leaves it out.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING

from flashinfer_bench.errors import MissingPackageError
from flashinfer_bench.rl.policy_tasks import PolicyTasks

try:
    import verifiers.v1 as vf
except ImportError:
    raise MissingPackageError(
        "verifiers", extra="verifiers", needed_for="the taskset of verifiers"
    ) from None

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KernelTaskset"]


class KernelTaskConfig(vf.TaskConfig):  # type: ignore[misc]  # it may not be installed
    """Where kernels are judged, and on what."""

    dataset: str | None = None
    """Folder of the dataset; None as on the command line."""
    split: str = "train"
    definitions: tuple[str, ...] = ()
    """Only these; all of the split where it is empty."""
    language: str = "python"
    device: str = "auto"
    ledger: str | None = None
    self_check: bool = True

    def policy_tasks(self) -> PolicyTasks:
        """Give the judge of these settings: one a process, so that its workers stay."""
        return _opened(self.model_dump_json())


class KernelTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Settings of the taskset: those of its tasks."""

    task: KernelTaskConfig = KernelTaskConfig()


class KernelTaskData(vf.TaskData):  # type: ignore[misc]
    """A prompt, and the definition that it asks for."""

    definition: str = ""


class KernelPolicyTask(vf.Task[KernelTaskData, vf.State, KernelTaskConfig]):  # type: ignore[misc]
    """Write one kernel."""

    @vf.reward  # type: ignore[untyped-decorator]
    async def kernel_reward(self, trace: vf.Trace) -> float:
        """Judge the last reply; `trace.info` gets the verdict's feedback and cost."""
        judging = self.config.policy_tasks()
        found = await asyncio.to_thread(judging.score, trace.last_reply or "", self.data.definition)
        trace.info["kernel_verdict"] = {
            "right": found.right,
            "speedup_lower": found.speedup_lower,
            "sol_fraction": found.sol_fraction,
            "feedback": found.feedback,
            "device_seconds": found.cost.device_seconds,
            "is_duplicate": found.is_duplicate,
        }
        assert found.reward is not None  # `score` raises where there is none
        return float(found.reward)


class KernelTaskset(vf.Taskset[KernelPolicyTask, KernelTasksetConfig]):  # type: ignore[misc]
    """The definitions of one split."""

    def load(self) -> Iterator[KernelPolicyTask]:
        """Make the tasks; runs the self-check first, where it is asked for."""
        for each in self.config.task.policy_tasks().tasks():
            data = KernelTaskData(
                name=each.definition, prompt=each.prompt, definition=each.definition
            )
            yield KernelPolicyTask(data, self.config.task)


@cache
def _opened(settings: str) -> PolicyTasks:
    config = KernelTaskConfig.model_validate_json(settings)
    return PolicyTasks(
        config.dataset,
        split=config.split,
        definitions=config.definitions,
        language=config.language,
        device=config.device,
        ledger=config.ledger,
        self_check=config.self_check,
    )
