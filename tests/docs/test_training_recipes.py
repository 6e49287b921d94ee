"""The recipes of the training page: each is executed, and called as its framework's documentation says.

The frameworks are stand-ins here, and so is the judge: what is tested is that values go in and out where they should.
"""

from __future__ import annotations

import asyncio
import re
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from flashinfer_bench.rl import KernelVerdict
from flashinfer_bench.rl.policy_tasks import NoVerdictError, PolicyTask

PAGE = Path(__file__).parents[2] / "docs" / "training-recipes.md"
RECIPES = dict(
    re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)
)
RIGHT = "```python\ndef run(x):\n    return x + 1\n```"
LOST = "lost"


class Judging:
    """A judge that knows one right answer, and has lost its device where it is asked for `lost`."""

    def __init__(self, dataset: str, *, split: str, ledger: str, self_check: bool) -> None:
        assert (dataset, split, self_check) == ("./dataset", "train", True)
        self.asked: list[str] = []

    def tasks(self) -> list[PolicyTask]:
        return [PolicyTask("increment", "train", "Write increment.")]

    def score(self, answer: str, definition: str) -> KernelVerdict:
        self.asked.append(definition)
        facts = {"candidate": "0", "definition": definition, "split": "train"}
        if answer == LOST:
            raise NoVerdictError(
                KernelVerdict(
                    **facts, reward=None, cause="device", no_verdict="it fell off the bus"
                )
            )
        right = "x + 1" in answer
        return KernelVerdict(
            **facts,
            reward=0.75 if right else 0.1,
            right=right,
            right_share=float(right),
            speedup_lower=1.25 if right else None,
            feedback="INCORRECT_NUMERICAL n=1000",
        )


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """Execute the recipe that the test names, with stand-ins for its framework."""
    monkeypatch.setattr("flashinfer_bench.rl.policy_tasks.PolicyTasks", Judging)
    for name, module in _stand_ins().items():
        monkeypatch.setitem(sys.modules, name, module)
    found: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(RECIPES[request.param], str(PAGE), "exec"), found)
    return SimpleNamespace(**found)


def _stand_ins() -> dict[str, types.ModuleType]:
    class BaseTextEnv:
        def __init__(self) -> None:
            self.turns = 0
            self.max_turns = 1

    class BaseVerifyRequest(BaseModel, arbitrary_types_allowed=True):
        response: Any

    class BaseVerifyResponse(BaseVerifyRequest, extra="allow"):
        reward: float

    modules = {
        "skyrl_gym": {},
        "skyrl_gym.envs": {},
        "skyrl_gym.envs.base_text_env": {
            "BaseTextEnv": BaseTextEnv,
            "BaseTextEnvStepOutput": dict,
        },
        "nemo_gym": {},
        "nemo_gym.base_resources_server": {
            "BaseVerifyRequest": BaseVerifyRequest,
            "BaseVerifyResponse": BaseVerifyResponse,
            "SimpleResourcesServer": object,
        },
    }
    made = {}
    for name, values in modules.items():
        made[name] = types.ModuleType(name)
        vars(made[name]).update(values)
    return made


def test_every_framework_of_the_page_has_a_recipe_here() -> None:
    assert set(RECIPES) == {
        *("TRL", "verl", "SkyRL", "NeMo Gym", "prime-rl", "OpenEvolve and other searchers"),
    }


@pytest.mark.parametrize("recipe", ["TRL"], indirect=True)
def test_trl_takes_lists_and_leaves_a_lost_verdict_out(recipe: Any) -> None:
    completions = [[{"role": "assistant", "content": text}] for text in (RIGHT, "no", LOST)]

    rewards = recipe.kernel_reward(
        completions=completions, definition=["increment"] * 3, prompts=["", "", ""]
    )

    assert rewards == [0.75, 0.1, None]
    assert recipe.kernel_dataset() == [{"prompt": "Write increment.", "definition": "increment"}]


@pytest.mark.parametrize("recipe", ["verl"], indirect=True)
def test_verl_gets_a_score_and_an_error_after_three_lost_verdicts(recipe: Any) -> None:
    found = recipe.compute_score(
        data_source="kernels", solution_str=RIGHT, ground_truth="increment", extra_info={}
    )
    with pytest.raises(NoVerdictError, match="fell off the bus"):
        recipe.compute_score("kernels", LOST, "increment")

    assert found == {"score": 0.75, "right": 1.0}
    assert len(recipe.judging.asked) == 1 + 3


@pytest.mark.parametrize("recipe", ["SkyRL"], indirect=True)
def test_skyrl_steps_until_the_kernel_is_right(recipe: Any) -> None:
    env = recipe.KernelEnv({}, {"definition": "increment", "max_turns": 3})

    wrong, right = env.step("no"), env.step(RIGHT)

    assert (wrong["reward"], wrong["done"]) == (0.1, False)
    assert wrong["observations"] == [{"role": "user", "content": "INCORRECT_NUMERICAL n=1000"}]
    assert (right["reward"], right["done"]) == (0.75, True)


@pytest.mark.parametrize("recipe", ["NeMo Gym"], indirect=True)
def test_nemo_gym_verifies_the_text_of_a_response(recipe: Any) -> None:
    message = SimpleNamespace(
        type="message", content=[SimpleNamespace(type="output_text", text=RIGHT)]
    )
    thought = SimpleNamespace(type="reasoning")
    response = SimpleNamespace(output=[thought, message])
    body = recipe.KernelVerifyRequest(response=response, definition="increment")

    answer = asyncio.run(recipe.KernelResourcesServer().verify(body))

    assert answer.reward == 0.75
    assert answer.response is response


@pytest.mark.parametrize("recipe", ["prime-rl"], indirect=True)
def test_prime_rl_loads_the_taskset_of_verifiers(recipe: Any) -> None:
    pytest.importorskip("verifiers.v1", reason="the extra verifiers is not installed")

    taskset = recipe.kernel_taskset()

    assert type(taskset).__name__ == "KernelTaskset"
    assert taskset.config.task.ledger == "./verdicts"


@pytest.mark.parametrize("recipe", ["OpenEvolve and other searchers"], indirect=True)
def test_openevolve_gets_a_combined_score(recipe: Any, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("def run(x):\n    return x + 1\n")

    metrics = recipe.evaluate(str(program))

    assert metrics == {"combined_score": 0.75, "right_share": 1.0, "speedup_lower": 1.25}
    assert recipe.judging.asked == ["rmsnorm_h4096"]
