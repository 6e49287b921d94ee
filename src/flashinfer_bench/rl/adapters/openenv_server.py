"""An OpenEnv environment: `reset` asks for a kernel, and each `step` judges one."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from flashinfer_bench.errors import MissingPackageError
from flashinfer_bench.rl.policy_tasks import NoVerdictError

try:
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State
except ImportError:
    raise MissingPackageError(
        "openenv-core", extra="openenv", needed_for="the OpenEnv server"
    ) from None

if TYPE_CHECKING:
    from fastapi import FastAPI

    from flashinfer_bench.rl.policy_tasks import PolicyTask, PolicyTasks


class KernelAction(Action):  # type: ignore[misc]  # it may not be installed
    """An answer of a policy: code, or text whose last code block is taken."""

    code: str


class KernelObservation(Observation):  # type: ignore[misc]
    """What a policy is told; `reward` is None where there is no verdict, and `no_verdict` says why."""

    prompt: str = ""
    definition: str = ""
    feedback: str = ""
    right: bool | None = None
    speedup_lower: float | None = None
    sol_fraction: float | None = None
    device_seconds: float = 0.0
    no_verdict: str | None = None


class KernelEnvironment(Environment):  # type: ignore[misc]
    """Kernels for one split; episodes of `most_turns` answers, each with its own reward."""

    SUPPORTS_CONCURRENT_SESSIONS = True  # the judge takes one answer at a time

    def __init__(self, judging: PolicyTasks, *, most_turns: int = 1) -> None:
        super().__init__()
        self._judging = judging
        self._most_turns = most_turns
        self._task: PolicyTask | None = None
        self._state = State(episode_id=None, step_count=0)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        definition: str | None = None,
        **_kwargs: Any,
    ) -> KernelObservation:
        """Ask for a definition: the named one, or the one that the seed picks."""
        tasks = self._judging.tasks()
        named = [each for each in tasks if each.definition == definition]
        if definition is not None and not named:
            known = ", ".join(each.definition for each in tasks)
            raise ValueError(f"no definition {definition!r} in this split; there are {known}")
        self._task = named[0] if named else tasks[(seed or 0) % len(tasks)]
        self._state = State(episode_id=episode_id or uuid.uuid4().hex, step_count=0)
        return KernelObservation(prompt=self._task.prompt, definition=self._task.definition)

    def step(
        self, action: KernelAction, timeout_s: float | None = None, **_kwargs: Any
    ) -> KernelObservation:
        """Judge an answer; the time limits are those of the judge, `timeout_s` adds none."""
        del timeout_s
        if self._task is None:
            raise ValueError("reset the environment first")
        self._state.step_count += 1
        done = self._state.step_count >= self._most_turns
        name = self._task.definition
        try:
            found = self._judging.score(action.code, name)
        except NoVerdictError as error:
            return KernelObservation(done=True, reward=None, definition=name, no_verdict=str(error))
        return KernelObservation(
            done=done,
            reward=found.reward,
            definition=name,
            feedback=found.feedback,
            right=found.right,
            speedup_lower=found.speedup_lower,
            sol_fraction=found.sol_fraction,
            device_seconds=found.cost.device_seconds,
        )

    @property
    def state(self) -> State:
        """Say which episode this is, and how many answers it had."""
        return self._state


def openenv_app(judging: PolicyTasks, *, most_turns: int = 1, sessions: int = 8) -> FastAPI:
    """Make the server; `uvicorn` runs it. Sessions share the judge and wait for each other."""
    app: FastAPI = create_fastapi_app(
        lambda: KernelEnvironment(judging, most_turns=most_turns),
        KernelAction,
        KernelObservation,
        max_concurrent_envs=sessions,
    )
    return app
